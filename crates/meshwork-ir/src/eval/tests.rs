//! Programs through the whole evaluator.
