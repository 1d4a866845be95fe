//! The tag index: it follows the tags of the rows.

use crate::harness::Harness;
use crate::harness::runner::RuleList;
use selvedge_core::Draft;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::rules::operator::Action;

pub async fn the_tag_index_follows_the_tags(harness: &Harness) {
    let id = harness
        .submit(Draft {
            tags: [("a".into(), "1".into()), ("b".into(), "1".into())].into(),
            ..Draft::new("kind")
        })
        .await
        .id;
    let indexed_tags = async || {
        let mut indexed_tags = Vec::new();
        for tag in ["a:1", "a:2", "b:1", "c:x:y"] {
            let filter = Filter { tags: vec![tag.into()], ..Filter::all(harness.namespace) };
            let found = harness.store.count(&filter, 10).await.expect("rows are counted");
            let listed =
                harness.store.list(&filter, None, 10, Payloads::NONE).await.expect("rows are listed").rows;
            let listed: Vec<_> = listed.iter().map(|stored| stored.execution.id).collect();
            assert_eq!(listed, vec![id; found as usize]);
            if found == 1 {
                indexed_tags.push(tag);
            }
        }
        indexed_tags
    };
    assert_eq!(indexed_tags().await, ["a:1", "b:1"]);
    let tag = |set: &[(&str, &str)], remove: &[&str]| Action::Tag {
        set: set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        remove: remove.iter().map(|name| (*name).into()).collect(),
    };
    harness.operate(id, tag(&[("a", "2"), ("c", "x:y")], &[])).await.expect("it is tagged");
    assert_eq!(indexed_tags().await, ["a:2", "b:1", "c:x:y"]);
    harness.operate(id, tag(&[], &["b", "c"])).await.expect("it is tagged");
    assert_eq!(indexed_tags().await, ["a:2"]);
    let back_and_forth = vec![
        harness.operate_command(id, tag(&[("a", "1")], &[])),
        harness.operate_command(id, tag(&[("b", "1")], &["a"])),
        harness.operate_command(id, tag(&[("a", "1")], &["b"])),
    ];
    harness
        .run(RuleList(back_and_forth))
        .await
        .into_iter()
        .for_each(|reply| drop(reply.expect("it is tagged")));
    assert_eq!(indexed_tags().await, ["a:1"]);
    assert_eq!(harness.row(id).await.tags, [("a".to_owned(), "1".to_owned())].into());
}
