//! Pairwise networks: nodes with a few labels each, costs of labels and of pairs of labels, and limits on what is used at a
//! time. Minimizing them gives proposals for shardings and a bound on how much better others can be.
