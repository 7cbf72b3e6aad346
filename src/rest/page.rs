//! The web UI: the bundle in `web/dist`, which is part of this program.
//!
//! Every path below `/ui/` is a view and is answered with the same document, which selects the
//! view. The document's files are below `/assets/`, with a hash of the content in their names, so
//! that browsers may cache them for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use include_dir::{Dir, include_dir};

use super::failures::Failure;
use super::replies::{AssetKind, Class, EndpointReply};
use crate::reads::Document;

static BUNDLE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/web/dist");

/// The only asset without a hash in its name.
const LICENCES: &str = "licenses.md";

/// Documents are made once, so that each is compressed once.
static INDEX: LazyLock<Arc<Document>> = LazyLock::new(|| {
    let index = BUNDLE.get_file("index.html").expect("the bundle has its document");
    Arc::new(Document::own(index.contents()))
});

static ASSETS: LazyLock<BTreeMap<&str, (AssetKind, Arc<Document>)>> = LazyLock::new(|| {
    let assets = BUNDLE.get_dir("assets").into_iter().flat_map(Dir::files);
    let named = assets.filter_map(|file| {
        let name = file.path().file_name()?.to_str()?;
        Some((name, (kind(name)?, Arc::new(Document::own(file.contents())))))
    });
    named.collect()
});

/// Answers with the document of every view.
pub(super) fn index() -> EndpointReply {
    EndpointReply::shared(Class::Page, Arc::clone(&INDEX))
}

/// Answers with a file of the bundle.
pub(super) fn asset(name: &str) -> Result<EndpointReply, Failure> {
    let (kind, document) = ASSETS.get(name).ok_or(Failure::AssetNotFound)?;
    Ok(EndpointReply::shared(Class::Asset(*kind), Arc::clone(document)))
}

fn kind(name: &str) -> Option<AssetKind> {
    if name == LICENCES {
        return Some(AssetKind::Licences);
    }
    match name.rsplit_once('.')?.1 {
        "js" => Some(AssetKind::Script),
        "css" => Some(AssetKind::Style),
        "svg" => Some(AssetKind::Picture),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundle_file_is_served_and_referenced() {
        let files = BUNDLE.get_dir("assets").unwrap().files();
        let names: Vec<&str> =
            files.map(|file| file.path().file_name().unwrap().to_str().unwrap()).collect();
        assert!(names.contains(&LICENCES));
        let index = BUNDLE.get_file("index.html").unwrap().contents_utf8().unwrap();
        for name in names {
            asset(name).unwrap();
            assert_eq!(index.contains(&format!("\"/assets/{name}\"")), name != LICENCES, "{name}");
        }
        assert!(asset("other.js").is_err());
        assert!(!index.contains("://"), "nothing comes from elsewhere: {index}");
    }
}
