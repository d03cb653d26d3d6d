//! The expressions of the corpus, one per line.

use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET};

pub fn filters() -> impl Iterator<Item = Filter> {
    let lines = include_str!("../corpus.txt").lines();
    let expressions = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    expressions.map(|expression| {
        Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN)
            .unwrap_or_else(|error| panic!("{error}"))
    })
}

#[test]
fn the_corpus_has_at_least_three_hundred_different_expressions() {
    let mut expressions: Vec<_> = filters().map(|filter| filter.expression().to_owned()).collect();
    let all = expressions.len();
    expressions.sort();
    expressions.dedup();
    assert_eq!(expressions.len(), all, "an expression is in the corpus twice");
    assert!(all >= 300, "{all}");
}
