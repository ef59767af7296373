//! Links between the Markdown files of the repository, and the tests that they name.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Markdown files below `folder` that belong to the repository.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The targets of the relative links in `line`, each with the text after it.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("](").filter_map(|(at, _)| {
        let (target, rest) = line[at + 2..].split_once(')')?;
        let target = target.split('#').next().unwrap_or_default();
        // Neither addresses nor paths of items, which rustdoc resolves.
        (!target.is_empty() && !target.contains("://") && !target.contains("::")).then_some((target, rest))
    })
}

#[test]
fn every_link_leads_to_a_file() {
    let mut all = vec![];
    pages(&root(), &mut all);
    assert!(all.len() > 20, "{all:?}");
    let mut broken = vec![];
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for (target, _) in text.lines().flat_map(links) {
            if !page.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// In the table of features, the test of each is named after the link to its file.
#[test]
fn every_feature_names_a_test_that_exists() {
    let docs = root().join("docs");
    let text = std::fs::read_to_string(docs.join("features.md")).unwrap();
    let mut named = 0;
    for (target, rest) in text.lines().flat_map(links) {
        let Some(name) = rest.strip_prefix(" `").and_then(|rest| rest.split('`').next()) else { continue };
        let file = std::fs::read_to_string(docs.join(target)).unwrap();
        assert!(file.contains(&format!("fn {name}()")), "{target} has no test {name}");
        named += 1;
    }
    assert!(named > 80, "{named} tests are named");
}

/// In the floor plan, each arrow is one function in the file that is linked.
#[test]
fn every_arrow_of_the_floor_plan_is_a_function() {
    let docs = root().join("docs");
    let text = std::fs::read_to_string(docs.join("README.md")).unwrap();
    let table = text.split("| arrow |").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(".rs)")).collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let name = row.split('`').nth(1).and_then(|path| path.rsplit("::").next()).unwrap();
        let (target, _) = links(row).next().unwrap();
        let file = std::fs::read_to_string(docs.join(target)).unwrap();
        assert!(
            file.contains(&format!("fn {name}(")) || file.contains(&format!("fn {name}<")),
            "{target} has no {name}"
        );
    }
}
