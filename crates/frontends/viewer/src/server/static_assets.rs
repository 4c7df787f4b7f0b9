//! Static files of the pages; they contain no data.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::render::STYLE;

const SHELL: &str = include_str!("../../assets/shell.html");
const APP: &str = include_str!("../../assets/app.js");
const LIST: &str = include_str!("../../assets/list.js");
const NET: &str = include_str!("../../assets/net.js");

const ICON: &str = include_str!("../../assets/icon.svg");

/// Returns a static file.
pub(super) fn asset(path: &str) -> Response {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", SHELL),
        "/style.css" => ("text/css; charset=utf-8", STYLE),
        "/app.js" => ("text/javascript; charset=utf-8", APP),
        "/list.js" => ("text/javascript; charset=utf-8", LIST),
        "/net.js" => ("text/javascript; charset=utf-8", NET),
        "/icon.svg" => ("image/svg+xml", ICON),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_assets_stay_small() {
        let size = SHELL.len() + APP.len() + LIST.len() + NET.len() + STYLE.len() + ICON.len();
        assert!(size < 200_000, "{size}");
    }
}
