"""What the paper contains, in one table: sections, algorithms, statements, tables, figures, open limitations, findings, words.

Captions, the explanations at the end of a report, the tables of docs/paper.md (``python -m tools.paper_page``), ``vpunn reproduce
--list``, the words of ``--only`` and the tests of names are made from it. A row is a line, its fields are parted by bars (‖ stands for
one inside a field), and "target:word" stands for a command that shows the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vpunn.errors import VpunnError

#: Printed without a caption, hence without a number.
UNNUMBERED = frozenset({"T1", "T3", "T4", "T19", "T20", "T21", "T22", "F4"})


@dataclass(frozen=True)
class Exhibit:
    """Something the paper prints: what it is, what stands for it here, what shows that, and whether it holds."""

    id: str
    title: str
    ours: str
    shown_by: str
    verdict: str

    @property
    def number(self) -> str:
        """The number the paper prints: tables and figures without a caption have none, and are not counted.

        >>> EXHIBITS["T9"].number, EXHIBITS["T19"].number, EXHIBITS["F17"].number, EXHIBITS["A4"].number
        ('Table 6', 'unnumbered table', 'Figure 16', 'Algorithm 4')
        """
        word = {"T": "Table", "F": "Figure", "A": "Algorithm"}.get(self.id[0])
        if word is None or not self.id[1:].isdecimal():
            return self.id
        if self.id in UNNUMBERED:
            return f"unnumbered {word.lower()}"
        return f"{word} {sum(f'{self.id[0]}{i}' not in UNNUMBERED for i in range(1, int(self.id[1:]) + 1))}"

    @property
    def made_by(self) -> list[tuple[str, str]]:
        """Targets and words of `vpunn reproduce` that show it."""
        return re.findall(r"(?<![\w/:.])([a-z]+):([\w-]+)", self.shown_by)

    @property
    def proof(self) -> str:
        """`shown_by` with its commands written out."""
        return re.sub(r"(?<![\w/:.])([a-z]+):([\w-]+)", r"`vpunn reproduce \1 --only \2`", self.shown_by)


@dataclass(frozen=True)
class Picture:
    """A figure of the paper as it is drawn here: its moral, its source (see `SOURCES`), and what is wrong with the paper's own."""

    key: str
    title: str
    moral: str
    source: str
    paper: str
    #: Whether another hierarchy gives another picture.
    about_data: bool


@dataclass(frozen=True)
class Finding:
    """A point of an audit of the paper: what the paper does, and what holds."""

    code: str
    paper: str
    holds: str


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip().replace("‖", "|") for cell in line.split(" | ")] for line in text.strip().splitlines()]


#: What a figure is drawn from.
SOURCES = {
    "code": "the exact code",
    "three": "the exact code, the digits that HiPaN predicts with nothing shown, and the semantic ids of the leaves' texts, if they have any",
    "trained": "a trained model",
    "net": "a v-PuNN that interpolates the depth of every leaf exactly",
    "none": "no data, as a diagram",
}

# in the paper | here | shown by | verdict
SECTIONS = """
§3.1 Def. 3.1 hierarchy; K | `Tree`, `Tree.max_depth` | tests/tree/test_tree.py | K = edges, always (E-06); graphs need a rule (E-13)
§3.1 prefix, ν_p, d_p, ball B_k(a) | `vpunn.padic.valuation`, `vpunn.padic.distance`, `vpunn.padic.Ball` | tests/test_padic.py | as printed
§3.1 remark, Thm 3.2 van der Put basis | `vpunn.padic` expansion and ranks | tests/test_padic.py::test_expansion_is_exact | misquoted: coefficients are differences, not basis functions (E-29)
§3.2 d(x, y) = exp(−αk) | `PadicCode.distance(alpha=)` | tests/paper/test_names.py::test_the_exponential_distance_has_the_order_of_the_p_adic_one | same order as p^−k
§3.3 Lemma 3.1 isometry | `PadicCode`, `vpunn.codes.isometry.check_losslessness` | wordnet:isometry | true with the root digit at p⁰ only (E-01)
§3.3 toy codes 0, 1, 3 | `vpunn.padic.distance` | tests/test_padic.py::test_toy_example_of_the_paper | wrong; 0, 4, 6 have the stated distances (E-03)
§3.4, §4.1 Def. 4.1 neuron χ_B, leaky χ̃_B | `vpunn.paper.balls.indicator`, `vpunn.paper.balls.BallNeuron` | tests/paper/test_balls.py::test_leak_lives_in_the_surrogate_only | a leak answers everywhere (E-26)
§3.5 TURL | `VPuNN`; `vpunn info` counts the numbers of balls | tests/paper/test_hipan.py::test_numbers_of_one_ball_are_counted | holds for `VPuNN`, not for HiPaN (E-19)
§3.5 Thm 3.1 parameter–subtree duality | `vpunn.network.gauges` | tests/network/test_network.py::test_ablation_changes_nothing_outside_the_ball | after a gauge is fixed (E-35)
§3.6 FHAT, Thm A.1 | `VPuNN.interpolate` | tests/network/test_network.py::test_rank_of_shallow_balls_refutes_the_papers_count; wordnet:FHAT | false as stated; exact with #leaves coefficients (E-30, E-31)
§3.6 count Σ p^j; count of HiPaN | `vpunn.paper.balls.parameter_counts` | tests/paper/test_balls.py::test_counts_of_the_paper | 3,018,420 = K·p·(p+1), the second (E-15)
§4.2 Def. 4.2 layer, c_B = p^v·u | `vpunn.network.VanDerPutLayer`, `VPuNN.valuations_`, `VPuNN.units_` | tests/paper/test_names.py::test_coefficients_are_powers_times_units | sum of layers, not a stack (E-28)
§4.2 remark, Lemma A.3 1-Lipschitz | `VPuNN.lipschitz_constant` | tests/network/test_network.py::test_a_layer_is_not_one_lipschitz | false; max ‖c_B‖_p·p^(depth−1) (E-36)
§4.3 sparse depths, KL pruning | `HiPaN(depths=)`, `vpunn.paper.reports.training.divergences` | wordnet:pruning | unsound; keeps every depth of WordNet (E-49)
§4.4, §4.8 heads | `vpunn.paper.DenseMSEHead`, `vpunn.paper.TwoLogitCEHead` | tests/paper/test_hipan.py::test_losses_gradients_and_both_rules_are_the_twins | built as described; the rule is shown the digit (E-43, E-44)
§4.4 digit-separable factorisation | `vpunn.paper.ceilings.separability` | wordnet:E-46 | holds on none of the trees (E-46)
§4.5 prime | `vpunn.padic.code_prime`, `vpunn.paper.next_prime` | tests/test_padic.py::test_next_prime_is_not_strict_and_reaches_large_numbers | smallest prime ≥ branching + 1 (E-04)
§4.6 Lemma 4.1, Thm 4.1 sparse activation | `vpunn.paper.sparse_activation_path` | tests/network/test_network.py::test_network_is_the_sum_of_its_layers_and_of_its_neurons | true without leak (E-26)
§4.8 Def. 4.3 encoding Γ | `HiPaN.encode`, `HiPaN.decode` | tests/paper/test_hipan.py::test_decode_brings_every_leaf_back | leaf-first order collides (E-02)
§4.8 curriculum | `vpunn.vapo.SCHEDULES` | tests/paper/test_hipan.py::test_phases_train_only_their_digits | two schedules contradict each other (E-53)
§4.8 "Huffman" weights | `HiPaN(weighting=)` | tests/vapo/test_heads.py::test_huffman_lengths_are_optimal | 1/√count, not Huffman (E-50)
§4.8 Thm 4.2 FHAT II, Cor. 4.1 VC | `VPuNN.interpolate` | tests/network/test_network.py | needs C ≤ p; the bound is vacuous (E-34, E-58)
§4.8 Table 3 (T6), classes | `vpunn.paper` (its docstring is that table) | tests/paper/test_names.py::test_every_name_of_table_6_and_of_the_algorithms_is_there | every name is there
§5.1 Lemma 1 path–digit "bijection" | `PadicCode` | tests/codes/test_codes.py | an injection (E-08)
§5.2 Eq. (1) loss | `vpunn.vapo.minimize` | tests/vapo/test_vapo.py | –
§5.3 Eq. (2) hybrid loss | `vpunn.paper.HybridLoss` | tests/paper/test_hipan.py::test_losses_gradients_and_both_rules_are_the_twins | contradicts its heads; the heads are built (E-48)
§5.5 gradient of the CE head | `vpunn.paper.HybridLoss` | tests/vapo/test_heads.py::test_the_papers_printed_gradient_has_the_wrong_sign | wrong sign and scale (E-41)
§5.5 η_t = η/√t | `vpunn.vapo.Schedule(decay=)` | tests/paper/test_hipan.py::test_the_decay_is_one_over_the_root_of_the_epoch; wordnet:epochs | changes little
§6.1 LeafAcc, RootAcc, ρ | `HiPaN.score` | tests/paper/test_hipan.py | one digit, padding included (E-60)
§6.6 ECE, Brier | `vpunn.metrics.calibration_error`, `vpunn.metrics.brier_score` | tests/metrics/test_calibration.py; go:T15 | below what its own errors allow (E-68)
§6.7 likelihood of a label: the product of the digits' soft-maxes | `HiPaN.predict_proba`, `HiPaN.calibrate` | tests/paper/test_likelihood.py; ncbi:T15 | built; without input it is one distribution for every item (E-45)
§6.7, §6.8 distance matrix, Mapper | `vpunn.structure.distance_matrix`, `vpunn.structure.mapper` | tests/structure/test_structure.py | follow from the code, not from learning (E-66, E-86)
§7.1 box dimension | `vpunn.structure.box_counting` | tests/structure/test_structure.py::test_wordnet_has_the_measured_numbers | ≤ 1; 1.46 is impossible (E-55)
§7.2 digit entropy | `vpunn.structure.entropy` | tests/structure/test_structure.py::test_digit_entropy_may_fall_and_the_verdict_says_so | not monotone; prefixes are (E-54)
§7.3 Laplacian | `vpunn.structure.spectrum` | tests/structure/test_structure.py::test_spectrum_equals_dense_eigenvectors | radius does not track depth
§8.1 HiPaQ | `vpunn.hipaq.HiPaQ` | tests/hipaq/test_groups.py; hipaq:T16 | orders were counted, not groups (E-72)
§8.2 Tab-HiPaN | `vpunn.TabHiPaN` | tests/tabular; tabular:T17 | no gain shown with the code (E-77)
App. B design guidance | `vpunn.paper.HiPaN`, `vpunn.vapo` heads | wordnet:leak; wordnet:ablations | leak and hinge do not help (E-26, E-51)
"""

# id | in the paper | here | shown by | verdict
ALGORITHMS = """
A1 | tree construction | `vpunn.paper.build_tree` | tests/paper/test_names.py::test_algorithm_1_on_a_graph_visits_twice_and_keeps_the_last_parent | wrong on graphs (E-13)
A2 | path encoding | `vpunn.paper.encode_path`, `vpunn.paper.paper_code` | tests/paper/test_controls.py; wordnet:algorithms | collides, ρ ≈ 0 (E-01, E-02)
A3 | decoding | `vpunn.paper.decode` | wordnet:algorithms | brings back leaves of the full depth only (E-02)
A4 | GIST-VAPO | `vpunn.paper.GISTScalar`; whole arrays: `vpunn.vapo.minimize` | tests/paper/test_hipan.py::test_gist_stops_where_no_single_step_lowers_the_loss | ±1-optimal, not coordinate-wise optimal (E-40)
A5 | Adam-VAPO | `vpunn.paper.AdamScalar`; whole arrays: `vpunn.vapo.minimize` | tests/paper/test_hipan.py::test_a_full_batch_adam_epoch_is_algorithm_5_on_the_gradient | a latent moves a digit or two (E-53)
"""

# in the paper | shown by | verdict
STATEMENTS = """
Prop. 2 finite termination, Cor. 2.1 coordinate-wise optimal | tests/paper/test_theorems.py::test_a_single_digit_that_is_not_convex_stops_the_papers_step | terminates; the corollary is false (E-40)
Prop. 5.1 expected sweeps | – | no proof is given, and its bound has p^K in it; nothing to run
Lemma 3 projection stability | tests/paper/test_theorems.py::test_lemma_3_the_projection_is_expansive_and_not_near | false (E-37)
Prop. 4 rounding error | tests/paper/test_theorems.py::test_proposition_4_the_rounding_error_is_bounded_only_inside_the_first_period | false outside (−½, p − ½)
Cor. 5.1, Thm 5.1 projected Adam | tests/paper/test_theorems.py::test_no_reading_of_prefix_convex_makes_the_search_global | not established; its bound does not vanish (E-38)
"prefix-convex" (Thm 5.1, Cor. A.5, §10) | tests/paper/test_theorems.py::test_no_reading_of_prefix_convex_makes_the_search_global, ::test_the_papers_own_loss_is_not_convex_in_its_values | never defined; even jointly convex losses stop the search short of the optimum, and HiPaN's loss is not convex (E-83)
Cor. A.5 Azuma bound | tests/paper/test_theorems.py::test_corollary_a5_its_first_inequality_fails_and_the_rest_gets_worse_with_t, ::test_corollary_a5_promises_what_a_run_does_not_keep | invalid (E-39)
Prop. 6.1 WordNet is a fractal | tests/structure/test_structure.py::test_boxes_are_distinct_prefixes | false (E-55)
Prop. 7.1 entropy monotonicity | tests/structure/test_structure.py::test_digit_entropy_may_fall_and_the_verdict_says_so | false for digits, true for prefixes (E-54)
Thm A.1 uniqueness, Lemma A.2 strong triangle, Thm A.3 completeness | tests/test_padic.py::test_digits_of_one_number, ::test_norm_is_multiplicative_and_ultrametric, ::test_ranks_of_the_paper_s_family | right; right with a slip in the proof (E-57); needs k ≤ K (E-34)
"""

# id | the paper's table | shown by | verdict
TABLES = """
T1 | gaps | wordnet:T10 | time and violations: see T10 and E-66
T2 | comparison with other geometries | wordnet:T2 | measured on WordNet's mammals; hidden leaves placed by the classifier, three splits: 84.9 ± 4.1 % of triplets right by the code, 84.2 ± 5.7 in Euclidean space, 72.9 ± 5.0 in a Poincaré ball; graph networks and transformers are not run
T3 | notation | this page | two conventions for digit 0 (E-01)
T4 | notation of HiPaN | this page | two conventions for digit 0 (E-01)
T5 | training schedule | wordnet:epochs | `vpunn.vapo.SCHEDULES` has both
T6 | theory and implementation | `vpunn.paper` | a doctest
T7 | runtime and memory complexity of VAPO | wordnet:T7 | exponents below 1 in the items, not p^K (E-20)
T8 | optimisers on WordNet | wordnet:T8 | rows under named protocols
T9 | hierarchy statistics | wordnet:T9, go:T9, ncbi:T9 | no release and no rule gives the paper's counts (E-14)
T10 | results on WordNet nouns | wordnet:T10 | shown the digit, given nothing, held out; constant 0 beside
T11 | results on the Gene Ontology | go:T11 | the same
T12 | results on NCBI Mammalia | ncbi:T12 | the same
T13 | speed and accuracy | wordnet:T13 | the same rows as T8
T14 | baselines on WordNet | baselines:T14 | given the digits of the answer (E-62, E-63); `--hour` gives each the paper's; on held-out rows: `python -m benchmarks.predict`
T15 | label-level calibration | wordnet:T15, go:T15, ncbi:T15 | HiPaN itself on all three trees, and classifiers that see features
T16 | HiPaQ | hipaq:T16 | all 1,251 groups; order 256 is not computed
T17 | wine: RMSE and MMD | tabular:T17 | no gain
T18 | wine: a controlled twin | tabular:T18 | impossible (E-80)
T19 | primes and depths | wordnet:T19 | see T9
T20 | hyper-parameters of HiPaQ and Tab-HiPaN | hipaq:T20 | adds nothing to the exact code
T21 | accuracy digit by digit | wordnet:T21 | also `results/wordnet_digit_accuracy.csv`
T22 | glossary | this page | –
"""

# id | title | moral | drawn from | what is wrong with the paper's own | * if another hierarchy gives another picture
FIGURES = """
F1 | Force-directed layout of the whole hierarchy | Springs in a plane show clutter: neighbours here need not be relatives. | code | The paper's graphic is missing; forces act on the largest balls here, the rest is thrown around them. | *
F2 | Geometries for hierarchies | A hierarchy fits exactly into the p-adic integers, nearly into hyperbolic space, and its ultrametric even into Euclidean space of many dimensions. | none | The paper's distortion ~1/d for Euclidean space is wrong (E-56). | –
F3 | A ball is a subtree is a prefix (p = 5, three digits) | All points that share the first two digits are one subtree. | code | The paper calls two shared digits a ball of radius p^−3; it is p^−2. | –
F4 | A toy tree with its codes and balls | Digit = child number from 1, so that 0 can mean 'stops here'; the root's choice stands at p⁰. | code | The paper's codes 0, 1, 3 contradict its own distances (E-02); two children and a stop need p = 3. | –
F5 | A v-PuNN at work on one item | The balls around an item light up, their coefficients add up, and the digits are its code. | net | The paper's diagram multiplies predicted digits by powers of p, which decodes a code and computes nothing. | *
F6 | A dense network beside a v-PuNN | A weight of a dense network touches every input; a coefficient touches one subtree. | code | The balls that the paper counts stop one level above the leaves (E-30). | *
F7 | Root-to-leaf optimisation | Left, training; right, the path of balls whose heads one item trains. | trained | The paper's graphic is a chain of boxes without data. | *
F8 | Sizes of the parameters by depth, and the bits they need | Whether coefficients shrink with depth, and how finely they must be stored, is measured. | trained | The paper's ‖θ_k‖ ~ p^−k contradicts weights that are digits from 0 to p − 1 (E-24). | *
F9 | Poincaré disk | Shells are concentric because depth is plotted as radius. | three | The paper reads the shells as a result of learning (E-85); its graphic is missing. | *
F10 | Calibration error by depth, on hidden leaves | Bars above the marks are more than chance gives to exact probabilities. | trained | The paper's 0.20 % is of training items and confidences near 1 (E-68); a fifth of the leaves is hidden here. | *
F11 | Distances of leaves in code order | Blocks inside blocks: sorting by code sorts by relationship. | three | No code can break the strong triangle inequality (E-66), so its absence confirms nothing about learning. | *
F12 | Mapper graph of the code | Components are the balls of the coarsest cover. | three | That no bridges appear follows from the cover and not from training (E-86). | *
F13 | Box counting | The slope stays below 1, the dimension of Z_p. | three | The paper's dimension 1.46 is impossible (E-55): it agrees with a slope of ln N, not of log_p N. | *
F14 | Children per inner node, by depth | Whether the depths agree is tested, not read off the picture. | three | The paper reads 'almost unchanged' off a graphic that is missing. | *
F15 | Entropy of the digits | Single digits may gain or lose information with depth; only prefixes must gain. | three | The paper's Proposition on H(d_k) is false (E-54). | *
F16 | Two views of the largest branch | The disk shows what was put in; the eigenmap knows no codes and shows a few large branches. | three | The paper says that the eigenmap's radius tracks depth; its disk plots depth as radius (E-85). | *
F17 | UMAP of white wines by root digit of a latent tree | The first digit is a coarse cluster of the measurements. | trained | The paper's graphic is missing. UMAP bends distances: islands are not proof of clusters (E-81). | –
F18 | Branching at some depths | Most inner nodes have few children, some have very many. | three | The paper's own p = 331 for GO would need another tree than ours (E-14); its graphic is missing. | *
F19 | Reliability at some depths, on hidden leaves | Dots outside the grey bars are wrong by more than chance allows. | trained | The paper's diagrams are of training items; graphic missing. | *
"""

# words of --only that the paper does not number, and what they show
EXTRAS = """
releases | every release and DAG policy that can be had
isometry | the code itself: round trips, collisions, isometry
algorithms | Algorithms 1 to 3 as a unit
FHAT | the approximation theorem, on random values
leak | six leaks in training
pruning | the KL rule that drops depths, and what it costs
epochs | sweeps, schedules and the decay of the theorem
heads | optimisers on heads without input, whose optimum is known
ablations | leak, weights and margin
groups | invariants of all groups of order ≤ 125
hydrogen | states of hydrogen, with and without labels
decays | channels of the τ
trees | rooted trees up to isomorphism
prediction | a code as columns for a boosted model
generation | tables made with and without the code
edits | rows moved to a sibling ball
picture | the picture of the wines, F17
refinement | joint refinement of a latent tree (L3)
ids | semantic ids of digit images
"""

# id | the open limitation | here | shown by | verdict
LIMITATIONS = """
L1 | one prime for all depths (§9.3) | `MixedRadixCode` | tests/codes | built: distances in the same order, fewer bits on every tree
L2 | p-adic Fisher information (§9.3) | `vpunn.vapo` fisher; with features: `vpunn.torch.FisherBlocks` | tests/vapo/test_fisher.py; `python -m benchmarks.torch.fisher` | built: without input exact, a few steps at any depth; with features one block a ball, in equal time level with Adam on one task and behind it on another
L3 | learning the tree and the heads together (§9.3) | `vpunn.tabular.refine_tree`, `vpunn.tabular.joint_tree` | tests/tabular; `python -m benchmarks.joint_trees` | built: planted trees are found; on WordNet's mammals a learned tree places new rows no better than a random one
L4 | more than 10⁵ leaves (§9.3) | `vpunn.scale` | tests/scale | built: sums over balls, the same bytes however the rows are parted
L5 | deep models, language models, graphs, agents (§9.3) | `vpunn.torch.PadicEmbedding`, `vpunn.torch.HierarchicalHead`, `vpunn.torch.PathHead`, `vpunn.regress.TreeValue` | tests/torch; `python -m benchmarks.torch.output_layer`, `python -m benchmarks.torch.graph`, `python -m benchmarks.torch.agents` | layers for deep models and graphs: built; agents: built as a toy, a value function measured in a maze and in MountainCar; language models: not done, none was trained
L6 | knowledge graphs, program lattices (§10) | `Tree.from_edges(policy=)` | tests/tree | built as a toy: a graph becomes a tree by a named rule or is unfolded; a code for a graph itself is not done, because the least distance over several paths is no ultrametric
"""

# word | meaning
GLOSSARY = """
v-PuNN | a sum of coefficients of the p-adic balls around a point: `VPuNN`
TURL | transparent ultrametric representation learning: every trainable number belongs to one ball. `VPuNN` satisfies it, HiPaN does not; `vpunn info model` prints "numbers of balls" and names the numbers of no ball
HiPaN, HiPaN-DS | the paper's composed model trained by Adam, by GIST: `HiPaN`, `HiPaN.DS`. GOHiPaN is the same on GO
VAPO, GIST-VAPO, Adam-VAPO | its optimisers: `vpunn.vapo.minimize`
HiPaQ, Tab-HiPaN | codes of symbolic objects, of table rows: `vpunn.hipaq.HiPaQ`, `vpunn.TabHiPaN`
FHAT | the approximation theorem: `VPuNN.interpolate` is its true form
K, p | digits of a code = edges of the longest path; smallest prime ≥ largest branching + 1
ball B_k(x) | all nodes that share the first k digits with x: a subtree
valuation ν(x − y) | how many leading digits two codes share: the depth of their common ancestor (LCA)
LeafAcc, RootAcc | in the paper: last and first digit right, padding included
prefix-convex | not defined in the paper; see above
leak α | the value of an indicator outside its ball; a training surrogate here
rule="given", rule="predicted" | the paper's rule, which reads the true digit and checks it; the same numbers with nothing shown. The words "paper" and "honest" mean the same
ECE, Brier, NLL | expected calibration error, Brier score, negative log-likelihood: `vpunn.metrics`
MMD, RMSE, VAE | maximum mean discrepancy, root mean squared error, variational auto-encoder: `vpunn.tabular`
"""

# code | the paper | what holds
FINDINGS = """
E-01 | puts the root's digit at p⁰ in one place and the leaf's in another | only with the root's digit at p⁰ distances are those of the tree
E-02 | pads short paths with zeros | codes collide; digits from 1 with 0 = "stop" are injective on all nodes (`vpunn.paper.paper_code` counts collisions)
E-03 | gives its toy tree the codes 0, 1, 3 | with the stated distances they are 0, 4, 6
E-04 | has six rules for the prime | smallest prime ≥ branching + 1
E-05 | has 329 children with p = 281 | the mammals have 280, and 281 is their prime
E-06 | counts edges for one tree and levels for another as K | K = edges here, always
E-08 | calls the code a bijection | an injection: some codes are of no path
E-13 | treats WordNet and GO as trees | they are graphs; a named rule makes trees of them, with a report of dropped edges
E-14 | prints sizes of its trees | no release has them
E-15 | prints a number of parameters beside a formula | the number is not the formula's
E-16 | counts parameters for GO and NCBI | the counts fit no K
E-17 | prints 155, 780 and 7.6 M | they are not the (p^K − 1)/(p − 1) that their caption names
E-18 | needs millions of parameters | fewer than 1 % of them are ever touched; one per node suffices
E-19 | says that every number belongs to one subtree | one is shared by all nodes with the same depth and sibling index
E-20 | has O(p^K) steps per epoch | that would be 10⁴⁷
E-21 | needs 12 MB of memory | that is the size of the parameters alone, not of a process
E-24 | says that weights shrink with depth and are digits | both cannot be
E-26 | makes indicators leaky | then every ball answers everywhere; a leak can only be a training surrogate
E-27 | stores a unit and a valuation in one rounded number | the rounding uses up what would hold the valuation
E-28 | stacks layers | they stand side by side and are summed
E-29 | calls differences of balls the basis of van der Put | the basis are indicators, the coefficients are differences
E-30 | counts the balls of its approximation theorem | they are too few; as many coefficients as leaves, or nodes, are exact
E-31 | averages ancestors | that does not telescope to the function
E-34 | has classes as last digits, and balls to depth K − 1 | needs C ≤ p, and depth K
E-35 | explains a subtree by one coefficient | after a gauge is fixed
E-36 | says that a layer is 1-Lipschitz | the constant is max ‖c_B‖_p · p^(depth − 1)
E-37 | says that rounding is stable | it expands distances, and a digit jumps from p − 1 to 0
E-38 | proves that projected Adam converges | its bound does not vanish
E-39 | bounds the steps by Azuma's inequality | its first inequality fails
E-40 | says that GIST ends coordinate-wise optimal | only with all digits tried; ±1 gets stuck
E-41 | prints the gradient of the two-logit head | with the wrong sign and scale; ours is checked by finite differences
E-43 | reads the deep heads at the true digit | the label leaks into the prediction; the same numbers, read for every child, predict
E-44 | predicts the mean child index, rounded | meaningless for names; kept as an ablation
E-45 | has a root soft-max without input | it always names the largest child
E-46 | shares heads by digit | exact only for digit-separable trees, which none of these is
E-47 | prints 99.99 % of digits | information ceilings, the best digit accuracy that exists without features, are far lower
E-48 | has a hybrid loss and heads | they contradict each other
E-49 | prunes depths by marginal KL | drops needed levels; unary levels can go without loss
E-50 | has "Huffman" weights 1/√count | named for what they are; true Huffman lengths are offered beside
E-51 | names a hinge term once | it is not defined, and one that was tried does not help
E-53 | has two training schedules | they contradict each other, and neither can reach most digits from zero
E-54 | says that digits lose entropy steadily | they need not; prefixes gain it
E-55 | measures a dimension of 1.46 | nothing in Z_p has more than 1
E-56 | says that Euclidean distortion falls as 1/d | an ultrametric fits into Euclidean space without any
E-57 | proves the strong triangle inequality | right, with a slip in the proof
E-58 | bounds the VC dimension by p^K | vacuous
E-60 | has more leaves right than roots | a right leaf implies a right root, so something else was measured
E-61 | trains and tests on the same items, one per class | accuracy needs held-out items
E-62 | gave its baselines the digits of the answer | same features, split and budget for all
E-63 | prints no leaf accuracy of its baselines, and breaks their hour | nothing is compared
E-65 | has ρ = −0.96 | an exact code has −1
E-66 | finds no violation of the ultrametric inequality | no code at all can have one
E-67 | has leaf and root accuracy that agree to the decimal | one number printed twice, it seems
E-68 | prints Brier scores | below what the printed errors allow
E-72 | counts 125 groups of order ≤ 125 and 360 of order ≤ 360 | there are 1,251 and 67,232; orders were counted
E-73 | says that equal codes imply isomorphism | an invariant must also give isomorphic objects one code, whatever their presentation
E-74 | finds 12,000 states of hydrogen | 204 with n ≤ 8 (408 with spin), and quantum numbers are the labels of the tree
E-75 | needs 155 parameters for seven decays | a tree of seven channels has 12 nodes
E-76 | splits the wine table at random | it is the white subset, with 937 repeated rows
E-77 | has 5.3 % less error with the code | a code computed from the columns adds no information; one that saw the target leaks it
E-78 | halves the MMD | no generator is named for the first, and 0.054 → 0.031 is not half
E-79 | prints codes of wines | their digits cannot come from a Ward tree with p = 3
E-80 | has a twin at a Mahalanobis distance below 0.9 | with 2.3 % more alcohol it is at least 1.87 away
E-81 | validates its tree by colours in UMAP | colour and layout come from the same columns, so their agreement shows nothing
E-83 | calls its loss prefix-convex | never defined; it is not convex
E-85 | finds shells in a Poincaré disk | depth was plotted as radius
E-86 | finds no bridges in a Mapper graph | the cover has none
G6 | says: retain the hinge term; dropping it halves coarse-digit accuracy | not reproduced
"""

_NUMBERED = [
    *(Exhibit(*row) for row in _rows(ALGORITHMS)),
    *(Exhibit(key, title, "", shown, verdict) for key, title, shown, verdict in _rows(TABLES)),
    *(Exhibit(key, title, "", f"`vpunn figures {key}`", wrong) for key, title, _, _, wrong, _ in _rows(FIGURES)),
    *(Exhibit(*row) for row in _rows(LIMITATIONS)),
]
#: Everything with a number of ours: A1 to A5, T1 to T22, F1 to F19, L1 to L6.
EXHIBITS = {exhibit.id: exhibit for exhibit in _NUMBERED}
PICTURES = [
    Picture(key, title, moral, SOURCES[source], wrong, another == "*")
    for key, title, moral, source, wrong, another in _rows(FIGURES)
]
FOUND = {row[0]: Finding(*row) for row in _rows(FINDINGS)}


def captions(*names: str) -> str:
    """The paper's numbers, with ours behind them.

    >>> captions("T9", "T19")
    'Table 6 (T9), unnumbered table (T19)'
    """
    unknown = [name for name in names if name not in EXHIBITS]
    if unknown:
        raise VpunnError(f"the paper has no {unknown[0]!r}; tables are T1 to T22, figures F1 to F19.")
    return ", ".join(f"{EXHIBITS[name].number} ({name})" for name in names)


def meaning(word: str) -> str:
    """What a word of ``--only``, or a code in a report, stands for.

    >>> meaning("T9"), meaning("E-65"), meaning("leak")
    ("the paper's table: hierarchy statistics", 'the paper has ρ = −0.96: an exact code has −1', 'six leaks in training')
    """
    if word in EXHIBITS:
        return f"the paper's {'table' if word[0] == 'T' else 'figure'}: {EXHIBITS[word].title}"
    if word in FOUND:
        return f"the paper {FOUND[word].paper}: {FOUND[word].holds}"
    return dict(_rows(EXTRAS))[word]


def codes_in(text: str) -> list[tuple[str, str]]:
    """The codes of tables and findings that a text uses, and what they stand for."""
    used = set(re.findall(r"\b(?:E-\d\d|T\d{1,2}|G\d)\b", text))
    for first, last in re.findall(r"\bT(\d+)–T(\d+)\b", text):
        used |= {f"T{i}" for i in range(int(first), int(last) + 1)}
    return [(code, meaning(code)) for code in (*EXHIBITS, *FOUND) if code in used]


def page() -> dict[str, str]:
    """The tables of docs/paper.md, by heading."""

    def table(head: str, rows: list[list[str]]) -> str:
        lines = [head, "|".join(["", *["---"] * head.count(" | "), "---", ""])]
        return "\n".join(
            [*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)]
        )

    def proofs(exhibits: list[Exhibit], *columns: str) -> list[list[str]]:
        return [[f"{e.number} ({e.id}) {e.title}", *(getattr(e, c) for c in columns)] for e in exhibits]

    kinds = {letter: [e for e in _NUMBERED if e.id[0] == letter] for letter in "ATFL"}
    sections = [Exhibit("§", *row) for row in _rows(SECTIONS)]
    return {
        "Sections, equations and names": table(
            "| in the paper | here | shown by | verdict |", [[e.title, e.ours, e.proof, e.verdict] for e in sections]
        ),
        "Algorithms": table(
            "| in the paper | here | shown by | verdict |", proofs(kinds["A"], "ours", "proof", "verdict")
        ),
        "Statements on optimisation": table("| in the paper | shown by | verdict |", _rows(STATEMENTS)),
        "Tables": table("| table | command | verdict |", proofs(kinds["T"], "proof", "verdict")),
        "Figures": table("| figure | drawn by | the paper's own |", proofs(kinds["F"], "proof", "verdict")),
        "Open limitations": table(
            "| limitation | here | shown by | verdict |",
            [[f"{e.id} {e.title}", e.ours, e.proof, e.verdict] for e in kinds["L"]],
        ),
        "Glossary": table("| word | meaning |", _rows(GLOSSARY)),
        "Findings": table("| | the paper | what holds |", _rows(FINDINGS)),
    }
