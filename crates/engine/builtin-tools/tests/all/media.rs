//! Images and PDFs: what is sent always fits, and malicious files do no harm.
#![cfg(feature = "media")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use std::io::Cursor;

use base64::{Engine, engine::general_purpose::STANDARD};
use file_rig::Rig;
use haft_tool::Output;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::json;

fn encode(image: DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn noise(width: u32, height: u32) -> DynamicImage {
    let mut seed = 1_u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |_, _| Rgb([next(), next(), next()])))
}

fn plain(width: u32, height: u32) -> DynamicImage {
    DynamicImage::ImageRgba8(RgbaImage::from_pixel(width, height, Rgba([10, 200, 30, 255])))
}

fn pictures(output: &Output) -> Vec<(String, Vec<u8>)> {
    let blocks = serde_json::to_value(&output.content).unwrap();
    let images = blocks.as_array().unwrap().iter().filter(|it| it["type"] == "image");
    images
        .map(|it| {
            let source = &it["source"];
            let data = STANDARD.decode(source["data"].as_str().unwrap()).unwrap();
            (source["media_type"].as_str().unwrap().to_owned(), data)
        })
        .collect()
}

#[tokio::test]
async fn images_are_shrunk_to_the_limits() {
    let rig = Rig::new(&[]);
    let rows = [
        ("tiny.png", encode(plain(8, 8), ImageFormat::Png), "image/png", (8, 8)),
        ("photo.jpg", encode(plain(40, 30).into_rgb8().into(), ImageFormat::Jpeg), "image/jpeg", (40, 30)),
        ("a.gif", encode(plain(9, 9), ImageFormat::Gif), "image/gif", (9, 9)),
        ("w.webp", encode(plain(12, 7), ImageFormat::WebP), "image/webp", (12, 7)),
        ("wide.png", encode(plain(9000, 200), ImageFormat::Png), "image/jpeg", (2000, 44)),
        ("large.png", encode(plain(2100, 1050), ImageFormat::Png), "image/jpeg", (2000, 1000)),
        ("at-limit.png", encode(plain(2000, 10), ImageFormat::Png), "image/png", (2000, 10)),
        ("heavy.png", encode(noise(500, 500), ImageFormat::Png), "image/jpeg", (500, 500)),
        ("line.png", encode(plain(1, 5000), ImageFormat::Png), "image/jpeg", (1, 2000)),
        // The file name does not matter.
        ("really-a-png.txt", encode(plain(8, 8), ImageFormat::Png), "image/png", (8, 8)),
    ];
    for (name, bytes, media_type, size) in rows {
        rig.put(name, &bytes);
        let output = rig.run("Read", json!({ "file_path": name })).await.unwrap();
        let sent = pictures(&output);
        assert_eq!(sent.len(), 1, "{name}");
        assert_eq!(sent[0].0, media_type, "{name}");
        assert!(sent[0].1.len() <= 3_600_000, "{name}: {}", sent[0].1.len());
        let shown = image::load_from_memory(&sent[0].1).unwrap();
        assert_eq!((shown.width(), shown.height()), size, "{name}");
        assert_eq!(output.data["type"], "image");
        assert_eq!(output.data["file"]["originalSize"], bytes.len(), "{name}");
        assert_eq!(output.data["file"]["dimensions"]["displayWidth"], size.0, "{name}");
    }
    let said = rig.read("wide.png").await;
    assert!(said.contains("9000×200") && said.contains("2000×44"), "{said}");
}

#[tokio::test]
async fn transparent_pixels_become_white() {
    let rig = Rig::new(&[]);
    let image =
        RgbaImage::from_fn(2100, 4, |x, _| if x < 1050 { Rgba([0, 0, 0, 0]) } else { Rgba([0, 0, 0, 255]) });
    rig.put("t.png", encode(image.into(), ImageFormat::Png));
    let output = rig.run("Read", json!({ "file_path": "t.png" })).await.unwrap();
    let shown = image::load_from_memory(&pictures(&output)[0].1).unwrap().into_rgb8();
    assert!(shown.get_pixel(10, 1).0[0] > 240 && shown.get_pixel(1990, 1).0[0] < 15);
}

#[tokio::test]
async fn malformed_images_are_described_instead_of_decoded() {
    let rig = Rig::new(&[]);
    let good = encode(plain(50, 50), ImageFormat::Png);
    // An image whose header claims a huge size.
    let mut bomb = good.clone();
    bomb[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    bomb[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
    let mut gif = encode(plain(9, 9), ImageFormat::Gif);
    gif.truncate(20);
    for (name, bytes) in [
        ("cut.png", good[..good.len() / 2].to_vec()),
        ("header.png", good[..12].to_vec()),
        ("bomb.png", bomb),
        ("cut.gif", gif),
        ("junk.jpg", [&b"\xff\xd8\xff\xe0"[..], &[7; 300]].concat()),
        ("junk.webp", [&b"RIFF\x10\0\0\0WEBPVP8 "[..], &[9; 40]].concat()),
    ] {
        rig.put(name, bytes);
        let said = rig.read(name).await;
        assert!(said.starts_with("error: ") && said.contains("image/"), "{name}: {said}");
    }
}

/// Builds a PDF with one page per text; an empty text gives a page with a drawing only.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let drawn = pages.iter().map(|text| {
        if text.is_empty() {
            String::from("1 0 0 rg 50 50 300 300 re f")
        } else {
            format!("BT /F1 24 Tf 50 600 Td ({text}) Tj ET")
        }
    });
    pdf_of(&drawn.collect::<Vec<_>>())
}

/// Builds a PDF with one page per content stream.
fn pdf_of(contents: &[String]) -> Vec<u8> {
    let kids: Vec<String> = (0..contents.len()).map(|at| format!("{} 0 R", 5 + 2 * at)).collect();
    let mut objects = vec![
        String::from("<</Type/Catalog/Pages 2 0 R>>"),
        format!("<</Type/Pages/Kids[{}]/Count {}>>", kids.join(" "), contents.len()),
        String::from("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"),
    ];
    for content in contents {
        objects.push(format!("<</Length {}>>stream\n{content}\nendstream", content.len()));
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/Contents {} 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>>>",
            objects.len()
        ));
    }
    let (mut out, mut places) = (String::from("%PDF-1.5\n"), String::new());
    for (at, object) in objects.iter().enumerate() {
        places.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.push_str(&format!("{} 0 obj{object}endobj\n", at + 1));
    }
    let size = objects.len() + 1;
    let table = out.len();
    out.push_str(&format!(
        "xref\n0 {size}\n0000000000 65535 f \n{places}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{table}\n%%EOF"
    ));
    out.into_bytes()
}

/// Whitespace missing in a page is inferred from glyph positions.
#[tokio::test]
async fn pdf_whitespace_is_inferred_from_glyph_positions() {
    let rig = Rig::new(&[]);
    // A line long enough for the page to count as having text.
    const LINE: &str = "BT /F1 10 Tf 50 800 Td (a line of a page) Tj ET ";
    for (content, want) in [
        // Spaces as gaps, as glyphs, and both.
        ("BT /F1 12 Tf 50 600 Td [(two)-400(wo)-10(rds and)] TJ ET", "two words and"),
        ("BT /F1 12 Tf 50 600 Td (one ) Tj (line in pieces) Tj ET", "one line in pieces"),
        // A new line, a new paragraph.
        ("BT /F1 12 Tf 14 TL 50 600 Td (first line) Tj T* (second line) Tj ET", "first line\nsecond line"),
        (
            "BT /F1 12 Tf 50 600 Td (a paragraph) Tj 0 -40 Td (and another) Tj ET",
            "a paragraph\n\nand another",
        ),
        // Table columns, subscripts, indentation of programs.
        ("BT /F1 10 Tf 50 600 Td (name) Tj 200 0 Td (amount) Tj ET", "name\tamount"),
        ("BT /F1 12 Tf 50 600 Td (x) Tj /F1 7 Tf 4 Ts (2) Tj 0 Ts /F1 12 Tf ( + y) Tj ET", "x2 + y"),
        ("BT /F1 12 Tf 14 TL 50 600 Td (fn main\\(\\)) Tj T* (    go\\(\\);) Tj ET", "fn main()\n    go();"),
        // Drawn twice (fake bold), filled and outlined, invisible.
        ("BT /F1 12 Tf 50 600 Td (bold) Tj -0.3 0 Td (bold) Tj ET", "bold"),
        ("BT /F1 12 Tf 2 Tr 50 600 Td (outlined) Tj ET", "outlined"),
        ("BT /F1 12 Tf 3 Tr 50 600 Td (a layer of letters) Tj ET", "a layer of letters"),
        // Rotated, and outside the page.
        ("BT /F1 12 Tf 0 1 -1 0 300 300 Tm (up the margin) Tj ET", "up the margin"),
        ("BT /F1 12 Tf 900 600 Td (nobody sees this) Tj -850 0 Td (but this) Tj ET", "but this"),
        // Non-ASCII text.
        ("BT /F1 12 Tf 50 600 Td (na\\357ve caf\\351 \\226 \\200) Tj ET", "naïve café – €"),
    ] {
        rig.put("page.pdf", pdf_of(&[format!("{LINE}{content}")]));
        let said = rig.read("page.pdf").await;
        let text = said.split_once("a line of a page\n\n").unwrap_or_else(|| panic!("{content}: {said}")).1;
        assert_eq!(text.trim_end(), want, "{content}: {said}");
    }
}

/// Glyphs without a Unicode mapping are shown as an image.
#[tokio::test]
async fn page_without_unicode_mapping_is_rendered() {
    let rig = Rig::new(&[]);
    let text = String::from_utf8(pdf(&["Letters without a meaning, many of them."])).unwrap();
    let unknown = text.replace(
        "/Encoding/WinAnsiEncoding",
        "/Encoding<</Differences[32/g1/g2/g3/g4/g5/g6/g7/g8/g9/g10/g11/g12/g13/g14/g15/g16 65/g17/g18/g19/g20/g21/g22/g23/g24/g25/g26/g27/g28/g29/g30 97/h1/h2/h3/h4/h5/h6/h7/h8/h9/h10/h11/h12/h13/h14/h15/h16/h17/h18/h19/h20/h21/h22/h23/h24/h25/h26]>>",
    );
    rig.put("unknown.pdf", unknown.into_bytes());
    let output = rig.run("Read", json!({ "file_path": "unknown.pdf" })).await.unwrap();
    assert_eq!(pictures(&output).len(), 1, "{}", output.content.to_text());
}

fn pages(count: usize) -> Vec<u8> {
    let texts: Vec<String> = (1..=count).map(|n| format!("This is the text of page number {n}.")).collect();
    pdf(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn pdf_pages_are_shown_as_text() {
    let rig = Rig::new(&[]);
    rig.put("three.pdf", pages(3));
    let output = rig.run("Read", json!({ "file_path": "three.pdf" })).await.unwrap();
    assert_eq!((&output.data["type"], &output.data["file"]["pageCount"]), (&json!("pdf"), &json!(3)));
    let text = output.content.to_text();
    assert!(text.contains("--- page 2 of 3 ---\nThis is the text of page number 2."), "{text}");
    rig.put("long.pdf", pages(101));
    let said = rig.read("long.pdf").await;
    assert!(said.starts_with("error: ") && said.contains("101 pages") && said.contains("\"1-20\""), "{said}");
    for (range, want) in [
        ("99-101", "page number 101."),
        ("3,7", "--- page 7 of 101 ---"),
        ("95-105", "has no page 102"),
        ("1-50", "was asked for 50 pages"),
    ] {
        let said = rig.say("Read", json!({ "file_path": "long.pdf", "pages": range })).await;
        assert!(said.contains(want), "{range}: {said}");
    }
}

#[tokio::test]
async fn pdf_pages_without_text_are_rendered() {
    let rig = Rig::new(&[]);
    rig.put("scan.pdf", pdf(&["", ""]));
    let output = rig.run("Read", json!({ "file_path": "scan.pdf" })).await.unwrap();
    assert_eq!((&output.data["type"], &output.data["file"]["count"]), (&json!("parts"), &json!(2)));
    let sent = pictures(&output);
    assert_eq!(sent.len(), 2);
    // The same images are available as files.
    let dir = std::path::PathBuf::from(output.data["file"]["outputDir"].as_str().unwrap());
    let mut kept: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path()).collect();
    kept.sort();
    assert!(dir.starts_with(&rig.home) && kept.len() == 2, "{kept:?}");
    assert_eq!(std::fs::read(&kept[1]).unwrap(), sent[1].1);
    let shown = image::load_from_memory(&sent[0].1).unwrap().into_rgb8();
    assert!(shown.width().max(shown.height()) <= 2000);
    assert!(shown.pixels().any(|it| it.0[0] > 200 && it.0[1] < 60), "the drawing is red");
    rig.put("mixed.pdf", pdf(&["A page with enough words on it.", ""]));
    let output = rig.run("Read", json!({ "file_path": "mixed.pdf" })).await.unwrap();
    assert_eq!(output.data["type"], "pdf");
    assert_eq!(pictures(&output).len(), 1);
    assert!(output.content.to_text().contains("A page with enough words"));
}

#[tokio::test]
async fn malformed_pdfs_end_with_an_answer() {
    let rig = Rig::new(&[]);
    let good = pages(1);
    let mut rows: Vec<Vec<u8>> = vec![
        b"%PDF-1.7".to_vec(),
        b"%PDF-1.7\n%%EOF".to_vec(),
        good[..good.len() / 2].to_vec(),
        [b"%PDF-1.4\n".to_vec(), vec![b'['; 200_000]].concat(),
        // A page tree that is its own child.
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[2 0 R]/Count 1>>endobj\ntrailer<</Root 1 0 R>>".to_vec(),
    ];
    let mut seed = 7_usize;
    for _ in 0..6 {
        let mut bytes = good.clone();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 20) % bytes.len();
            bytes[at] = (seed >> 8) as u8;
        }
        rows.push(bytes);
    }
    for bytes in rows {
        rig.put("x.pdf", bytes);
        // Some remain readable; none crashes or hangs the process.
        let said = rig.read("x.pdf").await;
        assert!(!said.is_empty());
    }
}

#[tokio::test]
async fn reading_an_image_does_not_permit_overwriting_it() {
    let rig = Rig::new(&[]);
    rig.put("p.png", encode(plain(8, 8), ImageFormat::Png));
    rig.read("p.png").await;
    let said = rig.say("Write", json!({ "file_path": "p.png", "content": "text\n" })).await;
    assert!(said.starts_with("error: "), "{said}");
}

#[tokio::test]
async fn notebook_images_are_checked_and_shrunk() {
    let rig = Rig::new(&[]);
    let output = |kind: &str, data: String| json!({ "output_type": "display_data", "data": { kind: data, "text/plain": "<Figure>" } });
    let base64 = |bytes: Vec<u8>| STANDARD.encode(bytes);
    let good = base64(encode(plain(8, 8), ImageFormat::Png));
    let rows = [
        ("good", output("image/png", good.clone()), Some((8, 8)), ""),
        ("wrapped", output("image/png", format!("{}\n{}\n", &good[..20], &good[20..])), Some((8, 8)), ""),
        ("another type", output("image/jpeg", good.clone()), Some((8, 8)), ""),
        (
            "large",
            output("image/png", base64(encode(plain(2400, 12), ImageFormat::Png))),
            Some((2000, 10)),
            "",
        ),
        ("cut", output("image/png", good[..good.len() / 2 / 4 * 4].to_owned()), None, "is not shown"),
        ("no base64", output("image/png", "*".repeat(40)), None, "it is no base64"),
        ("no picture", output("image/png", base64(b"<html></html>".to_vec())), None, "it is no picture"),
    ];
    for (name, output, size, words) in rows {
        let cell = json!({ "cell_type": "code", "id": "a", "source": "plot()", "outputs": [output], "metadata": {} });
        let notebook = json!({ "cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5 });
        rig.put("n.ipynb", notebook.to_string());
        let output = rig.run("Read", json!({ "file_path": "n.ipynb" })).await.unwrap();
        let sent = pictures(&output);
        let sizes: Vec<(u32, u32)> = sent
            .iter()
            .map(|it| image::load_from_memory(&it.1).map(|it| (it.width(), it.height())).unwrap())
            .collect();
        assert_eq!(sizes, size.into_iter().collect::<Vec<_>>(), "{name}");
        for (media_type, data) in &sent {
            let format = image::guess_format(data).unwrap();
            assert_eq!(format.to_mime_type(), media_type, "{name}");
        }
        assert!(output.content.to_text().contains(words), "{name}: {}", output.content.to_text());
    }
}
