//! The picture in the README: the demo's overview.

use std::path::Path;

use crate::browser::Chromium;
use crate::harness::Service;

/// Largest picture in bytes, small enough for a page of text.
const MOST_BYTES: u64 = 200 << 10;

/// `MONOCEROS_PICTURE=1` takes a new picture. Otherwise the test checks that there is one.
#[tokio::test]
async fn the_readme_has_a_picture_of_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/page.png");
    if std::env::var_os("MONOCEROS_PICTURE").is_some() {
        let Some(chromium) = Chromium::start().await else { return };
        let service = Service::start_demo();
        let tab = chromium.tab().await;
        tab.resize(1280, 1215).await;
        tab.open(&format!("http://{}/", service.http)).await;
        // A minute of history, full queues, and pending requests with their reasons.
        tab.until("document.querySelector('.spark polyline').points.length >= 28").await;
        tab.until("document.querySelectorAll('#waiting tbody .tag').length >= 3").await;
        tab.picture(&path, 1_280.0, 1_215.0, 0.85).await;
        chromium.end().await;
    }
    let size = std::fs::metadata(&path).unwrap().len();
    assert!((10_000..MOST_BYTES).contains(&size), "{size} bytes");
    let readme = include_str!("../../README.md");
    assert!(readme.contains("](docs/page.png)"));
}
