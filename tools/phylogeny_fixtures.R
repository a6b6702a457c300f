# Rscript tools/phylogeny_fixtures.R OUT.json: what ape, nlme and phytools say about ten small trees; tests/regress/test_against_r.py compares.
suppressMessages({library(ape); library(nlme); library(phytools)})
out <- commandArgs(trailingOnly = TRUE)[1]
num <- function(x) paste0("[", paste(formatC(x, digits = 17, format = "g"), collapse = ","), "]")
str <- function(x) paste0("[", paste0('"', x, '"', collapse = ","), "]")
quadratic <- function(V, y, X, reml) {  # Gaussian log likelihood with beta and sigma^2 at their best, dense
  iV <- solve(V); XtVX <- t(X) %*% iV %*% X
  b <- solve(XtVX, t(X) %*% iV %*% y); r <- y - X %*% b
  n <- length(y); d <- if (reml) n - ncol(X) else n
  s2 <- as.numeric(t(r) %*% iV %*% r) / d
  ll <- -0.5 * (d * log(2 * pi * s2) + d + as.numeric(determinant(V)$modulus) + (if (reml) as.numeric(determinant(XtVX)$modulus) else 0))
  ll
}
cases <- c()
for (i in 1:10) {
  set.seed(i)
  n <- 12 + 4 * i
  tree <- if (i %% 2) rtree(n) else rcoal(n)
  if (i == 2) tree$edge.length <- tree$edge.length * 1e9
  if (i == 3) tree$edge.length <- tree$edge.length / sum(tree$edge.length)
  x <- fastBM(tree) / sqrt(max(node.depth.edgelength(tree)))
  y <- 2 + 0.7 * x + fastBM(tree) / sqrt(max(node.depth.edgelength(tree))) + rnorm(n, sd = 0.3)
  x <- x[tree$tip.label]; y <- y[tree$tip.label]
  C <- vcv(tree); X1 <- matrix(1, n, 1); X2 <- cbind(1, x)
  high <- mean(diag(C)); alpha <- 1.7 / high; D <- cophenetic(tree)
  L <- 0.6 * C; diag(L) <- diag(C)
  K <- tree; K$edge.length <- K$edge.length^0.5
  frame <- data.frame(x = x, y = y, w = diag(C), sp = tree$tip.label)
  bm <- gls(y ~ x, data = frame, correlation = corBrownian(1, tree, form = ~sp), weights = varFixed(~w), method = "REML")
  la <- gls(y ~ x, data = frame, correlation = corPagel(0.6, tree, form = ~sp, fixed = TRUE), weights = varFixed(~w), method = "REML")
  ou <- gls(y ~ x, data = frame, correlation = corMartins(alpha, tree, form = ~sp, fixed = TRUE), method = "REML")
  part <- function(m) num(c(as.numeric(logLik(m)), summary(m)$tTable))
  fa <- fastAnc(tree, y, vars = TRUE, CI = TRUE)
  inside <- sapply(as.integer(names(fa$ace)), function(k) paste(sort(extract.clade(tree, k)$tip.label), collapse = " "))
  pc <- pic(y, tree, var.contrasts = TRUE)
  nodes <- sapply(as.integer(rownames(pc)), function(k) paste(sort(extract.clade(tree, k)$tip.label), collapse = " "))
  ps <- phylosig(tree, y, method = "lambda", test = TRUE); pk <- phylosig(tree, y, method = "K")
  best <- function(f, lo, hi) optimize(f, c(lo, hi), maximum = TRUE, tol = 1e-10)
  lml <- best(function(l) { V <- l * C; diag(V) <- diag(C); quadratic(V, y, X1, TRUE) }, 0, 1)
  oml <- best(function(a) quadratic(exp(-exp(a) * D / high), y, X1, TRUE), log(1e-3), log(60))
  states <- factor(ifelse(y > quantile(y, 0.66), "c", ifelse(y > quantile(y, 0.33), "b", "a"))); names(states) <- tree$tip.label
  rate <- 1.3 / high
  Q <- matrix(rate, 3, 3); diag(Q) <- -2 * rate
  mk <- fitMk(tree, states, model = "ER", fixedQ = Q)
  er <- fitMk(tree, states, model = "ER"); sy <- fitMk(tree, states, model = "SYM")
  rr <- rerootingMethod(tree, states, model = "ER"); an <- rr$marginal.anc
  anodes <- sapply(as.integer(rownames(an)), function(k) paste(sort(extract.clade(tree, k)$tip.label), collapse = " "))
  cases <- c(cases, paste0('{"newick":"', write.tree(tree, digits = 17), '","tips":', str(tree$tip.label), ',"x":', num(x), ',"y":', num(y),
    ',"alpha":', num(alpha), ',"brownian":', part(bm), ',"lambda":', part(la), ',"ou":', part(ou),
    ',"kappa":', num(c(quadratic(vcv(K), y, X1, TRUE), quadratic(vcv(K), y, X1, FALSE))),
    ',"plain":', num(c(quadratic(C, y, X1, TRUE), quadratic(L, y, X1, TRUE), quadratic(exp(-alpha * D), y, X1, TRUE))),
    ',"inner":', str(inside), ',"ace":', num(fa$ace), ',"var":', num(fa$var),
    ',"pic_nodes":', str(nodes), ',"pic":', num(pc[, 1]), ',"pic_var":', num(pc[, 2]),
    ',"signal":', num(c(ps$lambda, ps$logL, ps$logL0, ps$P, as.numeric(pk))),
    ',"optimum":', num(c(lml$maximum, lml$objective, exp(oml$maximum) / high, oml$objective)),
    ',"states":', str(as.character(states)), ',"mk_rate":', num(rate),
    ',"mk":', num(c(as.numeric(logLik(mk)), as.numeric(logLik(er)), er$rates, as.numeric(logLik(sy)))),
    ',"mk_nodes":', str(anodes), ',"mk_at":', num(rr$Q[1, 2]), ',"mk_ace":', num(t(an)), '}'))
}
writeLines(paste0("[", paste(cases, collapse = ",\n"), "]"), out)
