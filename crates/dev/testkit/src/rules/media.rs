//! Validates images and documents.

use base64::Engine as _;
use serde_json::Value;

use super::{MockRefusal, RuleVerdict, blocks, refuse};
use crate::{pdf, script::MockLimits};

/// An image or document and its position.
pub(super) struct RequestMedia<'a> {
    pub(super) path: String,
    pub(super) kind: &'a str,
    pub(super) source: &'a Value,
}

/// Returns all media of a request, in order.
pub(super) fn all(body: &Value) -> Vec<RequestMedia<'_>> {
    let mut found = Vec::new();
    for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        for (index, block) in blocks(&message["content"]).iter().enumerate() {
            let path = format!("messages.{at}.content.{index}");
            push(&mut found, path.clone(), block);
            for (inner_index, inner) in blocks(&block["content"]).iter().enumerate() {
                push(&mut found, format!("{path}.tool_result.content.{inner_index}"), inner);
            }
        }
    }
    found
}

fn push<'a>(found: &mut Vec<RequestMedia<'a>>, path: String, block: &'a Value) {
    if let Some(kind @ ("image" | "document")) = block["type"].as_str() {
        found.push(RequestMedia { path, kind, source: &block["source"] });
    }
}

pub(super) fn check(limits: &MockLimits, body: &Value) -> RuleVerdict {
    let media = all(body);
    let images = media.iter().filter(|it| it.kind == "image").count();
    if images > limits.images {
        return Err(MockRefusal::invalid(format!("Too many images: {images} > {}", limits.images)));
    }
    let mut pages = 0;
    for item in &media {
        if item.source["type"] != "base64" {
            continue;
        }
        let path = format!("{}.{}.source.base64", item.path, item.kind);
        if item.kind == "image" {
            image(limits, &path, item.source, images)?;
        } else {
            pages += document(&path, item.source)?;
            if pages > limits.pdf_pages {
                let most = limits.pdf_pages;
                return Err(MockRefusal::invalid(format!("A maximum of {most} PDF pages may be provided.")));
            }
        }
    }
    Ok(())
}

fn decoded(path: &str, source: &Value) -> Result<Vec<u8>, MockRefusal> {
    let data = source["data"].as_str().unwrap_or_default();
    match base64::engine::general_purpose::STANDARD.decode(data) {
        Ok(bytes) if bytes.is_empty() => refuse(path, "image cannot be empty"),
        Ok(bytes) => Ok(bytes),
        Err(_) => refuse(&format!("{path}.data"), "invalid base64 data"),
    }
}

fn image(limits: &MockLimits, path: &str, source: &Value, images: usize) -> RuleVerdict {
    let media_type = source["media_type"].as_str().unwrap_or_default();
    if !["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&media_type) {
        let what = "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'";
        return refuse(&format!("{path}.media_type"), what);
    }
    let length = source["data"].as_str().map_or(0, str::len);
    if length > limits.image_bytes {
        let most = limits.image_bytes;
        return refuse(path, &format!("image exceeds 5 MB maximum: {length} bytes > {most} bytes"));
    }
    let bytes = decoded(path, source)?;
    let (Ok(kind), Ok(size)) = (imagesize::image_type(&bytes), imagesize::blob_size(&bytes)) else {
        return Err(MockRefusal::invalid("Could not process image"));
    };
    let actual = match kind {
        imagesize::ImageType::Png => "image/png",
        imagesize::ImageType::Jpeg => "image/jpeg",
        imagesize::ImageType::Gif => "image/gif",
        _ => "image/webp",
    };
    if actual != media_type {
        let what = format!(
            "The image was specified using the {media_type} media type, but the image appears to be a {actual} image"
        );
        return refuse(&format!("{path}.media_type"), &what);
    }
    let longer = size.width.max(size.height);
    let dimensions = "At least one of the image dimensions exceed max allowed size";
    if longer > limits.image_px {
        return refuse(&format!("{path}.data"), &format!("{dimensions}: {} pixels", limits.image_px));
    }
    if images > limits.many_images && longer > limits.many_image_px {
        let what = format!("{dimensions} for many-image requests: {} pixels", limits.many_image_px);
        return refuse(&format!("{path}.data"), &what);
    }
    Ok(())
}

fn document(path: &str, source: &Value) -> Result<usize, MockRefusal> {
    if source["media_type"] != "application/pdf" {
        return refuse(&format!("{path}.media_type"), "Input should be 'application/pdf'");
    }
    let bytes = decoded(path, source)?;
    match pdf::pages(&bytes) {
        Some(pages) => Ok(pages),
        None => Err(MockRefusal::invalid("Could not process PDF")),
    }
}
