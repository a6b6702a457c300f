# Prints one line per group of the orders in [FIRST .. LAST]: a JSON list of raw invariants by GAP's own functions.
# Run by make_group_table.py, which sets FIRST, LAST, SKIP and FULL (false: only order, number and generators).
# The definitions are those of src/vpunn/hipaq/group_invariants.py; the computation shares nothing with it.

SetPrintFormattingStatus("*stdout*", false);  # else long lines are broken with backslashes

# Nested lists of integers and strings as JSON.
Json := function(value)
  local piece;
  if IsInt(value) then return String(value); fi;
  if IsString(value) and not IsEmpty(value) then return Concatenation("\"", value, "\""); fi;
  piece := JoinStringsWithSeparator(List(value, Json), ",");
  return Concatenation("[", piece, "]");
end;

# Right multiplication by a small generating set, as permutations of 0 .. n-1 with the identity at 0.
RegularGenerators := function(G)
  local elements;
  if IsPcGroup(G) then
    elements := EnumeratorByPcgs(Pcgs(G));
  else
    elements := AsSSortedList(G);
  fi;
  return List(SmallGeneratingSet(G), g -> List(elements, x -> Position(elements, x * g) - 1));
end;

# Sorted distinct signatures with their multiplicity, and the rank of each signature.
Ranked := function(signatures)
  local distinct;
  distinct := Collected(signatures);
  return [distinct, List(signatures, s -> PositionSorted(List(distinct, pair -> pair[1]), s) - 1)];
end;

RefineColours := function(colours, signature)
  local rounds, step, ranked;
  rounds := [];
  repeat
    step := colours;
    ranked := Ranked(List([1 .. Length(step)], c -> signature(c, step)));
    Add(rounds, ranked[1]);
    colours := ranked[2];
  until Length(Set(colours)) = Length(Set(step));
  return [rounds, colours];
end;

GroupInvariants := function(G)
  local classes, reps, sizes, orders, n, classOf, powers, primes, roots, start, byPower, byProduct, pairs, x, y, ifSo,
        cyclic, elements, index, products, c;
  n := Size(G);
  classes := ConjugacyClasses(G);
  reps := List(classes, Representative);
  sizes := List(classes, Size);
  orders := List(reps, Order);
  elements := AsSSortedList(G);
  index := [];
  for c in [1 .. Length(classes)] do
    for x in AsList(classes[c]) do index[PositionSorted(elements, x)] := c; od;
  od;
  classOf := x -> index[PositionSorted(elements, x)];
  powers := List([1 .. Length(reps)], c -> List([2 .. orders[c] - 1], k -> classOf(reps[c] ^ k)));
  primes := PrimeDivisors(n);
  roots := List(primes, p -> List(reps, x -> classOf(x ^ p)));
  start := Ranked(List([1 .. Length(reps)], c -> [orders[c], sizes[c]]));
  byPower := RefineColours(start[2], function(c, colour)
    return [colour[c], colour{powers[c]},
            List([1 .. Length(primes)], i -> Collected(colour{Positions(roots[i], c)}))];
  end);
  products := List(reps, x -> List(elements, y -> classOf(x * y)));
  byProduct := RefineColours(byPower[2], function(c, colour)
    return [colour[c], Collected(List([1 .. n], i -> [colour[index[i]], colour[products[c][i]]]))];
  end);
  # <x, y> depends on y only through <y>: one y per cyclic subgroup, counted with its generators.
  cyclic := Set(elements, y -> Set(Filtered([1 .. Order(y)], k -> Gcd(k, Order(y)) = 1), k -> y ^ k));
  pairs := ListWithIdenticalEntries(n, 0);
  for c in [1 .. Length(reps)] do
    for y in cyclic do
      x := Size(Subgroup(G, [reps[c], y[1]]));
      pairs[x] := pairs[x] + sizes[c] * Length(y);
    od;
  od;
  pairs := List(Filtered([1 .. n], m -> pairs[m] > 0), m -> [m, pairs[m]]);
  ifSo := function(test, value) if test then return value(G); else return -1; fi; end;
  return [
    n,
    AbelianInvariants(G),
    Exponent(G),
    ifSo(IsNilpotentGroup(G), NilpotencyClassOfGroup),
    ifSo(IsSolvableGroup(G), DerivedLength),
    AbelianInvariants(Centre(G)),
    AbelianInvariants(DerivedSubgroup(G)),
    start[1],
    byPower[1],
    pairs,
    byProduct[1],
  ];
end;

for order in [FIRST .. LAST] do
  if not order in SKIP then
    for number in [1 .. NumberSmallGroups(order)] do
      G := SmallGroup(order, number);
      if FULL then
        Print(Json([order, number, StructureDescription(G), RegularGenerators(G), GroupInvariants(G)]), "\n");
      else
        Print(Json([order, number, RegularGenerators(G)]), "\n");
      fi;
    od;
  fi;
od;
QUIT;
