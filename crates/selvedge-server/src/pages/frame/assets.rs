//! The style sheet and the script. Their names have a digest of their content, so browsers keep them until they change.

use crate::compression::FixedContent;
use crate::routes::HandlerResult;
use crate::wire::path::PathName;
use crate::wire::problem::{Code, Problem};
use axum::http::header;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// A file that pages load.
pub struct Asset {
    /// The name in the address.
    pub name: String,
    content_type: &'static str,
    content: FixedContent,
}

impl Asset {
    fn new(stem: &str, extension: &str, content_type: &'static str, text: String) -> Asset {
        let name = format!("{stem}-{:016x}.{extension}", xxh3_64(text.as_bytes()));
        Asset { name, content_type, content: FixedContent::new(text) }
    }

    /// Returns the address.
    pub fn path(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// The style sheet: that of pictures, and that of pages.
pub static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let of_pages = [
        include_str!("assets/selvedge.css"),
        include_str!("assets/forms.css"),
        include_str!("assets/subjects.css"),
    ];
    let text = selvedge_drawing::page_style() + &of_pages.concat();
    Asset::new("selvedge", "css", "text/css; charset=utf-8", text)
});

/// The script: its parts in the order in which they run.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let parts = [
        include_str!("assets/selvedge.js"),
        include_str!("assets/forms.js"),
        include_str!("assets/selection.js"),
        include_str!("assets/tail.js"),
    ];
    Asset::new("selvedge", "js", "text/javascript; charset=utf-8", parts.concat())
});

/// The script of the page of a flow: the graph, its past, and previews of replays.
pub static FLOW_SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "selvedge-flow",
        "js",
        "text/javascript; charset=utf-8",
        include_str!("assets/flow.js").to_owned(),
    )
});

/// The script of the page of an execution: its live log, and submitting it again.
pub static EXECUTION_SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "selvedge-execution",
        "js",
        "text/javascript; charset=utf-8",
        include_str!("assets/execution.js").to_owned(),
    )
});

/// The icon of the site.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg").to_owned()));

/// `GET /assets/{name}`
pub async fn asset(PathName(name): PathName) -> HandlerResult {
    let known = [&*STYLE, &*SCRIPT, &*FLOW_SCRIPT, &*EXECUTION_SCRIPT, &*ICON];
    let found = known.into_iter().find(|asset| asset.name == name);
    let asset = found.ok_or_else(|| Problem::new(Code::NotFound, format!("there is no asset {name:?}")))?;
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ];
    Ok(asset.content.response(headers))
}
