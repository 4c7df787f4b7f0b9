use std::io::Cursor;

use base64::{Engine, engine::general_purpose::STANDARD};
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use image::{
    DynamicImage, GenericImageView, ImageDecoder, ImageReader, Limits, Rgb, RgbImage, RgbaImage,
    codecs::jpeg::JpegEncoder,
};

use crate::{ImageBounds, ImageFormat, Picture};

/// Maximum pixels of an image that is decoded.
const MAX_PIXELS: u64 = 200_000_000;

/// Maximum bytes the decoder may allocate for one image.
const MAX_MEMORY: u64 = 1024 * 1024 * 1024;

/// Decodes an image and makes it fit. An image that already fits is returned unchanged, but still
/// decoded to check it.
pub(super) fn prepare(bytes: Vec<u8>, format: ImageFormat, frame: ImageBounds) -> Result<Picture, String> {
    let original = dimensions(&bytes, format)?;
    let image = decode(&bytes, format)?;
    let (width, height) = image.dimensions();
    if width.max(height) <= frame.side && bytes.len() <= frame.small {
        return Ok(picture(format.media_type(), &bytes, original, (width, height)));
    }
    drop(bytes);
    shrink(image, original, frame)
}

fn picture(media_type: &str, data: &[u8], original: (u32, u32), shown: (u32, u32)) -> Picture {
    Picture { media_type: media_type.to_owned(), base64: STANDARD.encode(data), original, shown }
}

fn reader(bytes: &[u8], format: ImageFormat) -> ImageReader<Cursor<&[u8]>> {
    let format = match format {
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::Jpeg => image::ImageFormat::Jpeg,
        ImageFormat::Gif => image::ImageFormat::Gif,
        ImageFormat::WebP => image::ImageFormat::WebP,
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    reader
}

fn broken(err: &image::ImageError) -> String {
    format!("it cannot be read: {err}")
}

/// Reads width and height from the header, before anything is decoded. Rejects images of more than
/// [`MAX_PIXELS`].
fn dimensions(bytes: &[u8], format: ImageFormat) -> Result<(u32, u32), String> {
    let (width, height) = reader(bytes, format).into_dimensions().map_err(|err| broken(&err))?;
    if width == 0 || height == 0 {
        return Err("it has no pixels".to_owned());
    }
    if MAX_PIXELS < u64::from(width) * u64::from(height) {
        return Err(format!("its {width}×{height} pixels are too many to unpack"));
    }
    Ok((width, height))
}

fn decode(bytes: &[u8], format: ImageFormat) -> Result<DynamicImage, String> {
    let mut decoder = reader(bytes, format).into_decoder().map_err(|err| broken(&err))?;
    let orientation = decoder.orientation().ok();
    let mut image = DynamicImage::from_decoder(decoder).map_err(|err| broken(&err))?;
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    Ok(image)
}

/// Re-encodes the image as JPEG, with lower quality and size until it fits. Fails below 64 pixels.
pub(super) fn shrink(
    image: DynamicImage,
    original: (u32, u32),
    frame: ImageBounds,
) -> Result<Picture, String> {
    let mut side = frame.side;
    let mut flat = flatten(image);
    while 64 <= side {
        flat = resize(flat, side)?;
        for quality in [80, 60] {
            let data = jpeg(&flat, quality)?;
            if data.len() <= frame.bytes {
                return Ok(picture("image/jpeg", &data, original, flat.dimensions()));
            }
        }
        side = side * 3 / 4;
    }
    Err("it cannot be made small enough".to_owned())
}

/// Blends transparency onto white.
fn flatten(image: DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.into_rgb8();
    }
    let image = image.into_rgba8();
    let mut flat = RgbImage::new(image.width(), image.height());
    for (from, to) in image.pixels().zip(flat.pixels_mut()) {
        let [red, green, blue, alpha] = from.0.map(u16::from);
        let blend = |it: u16| u8::try_from((it * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX);
        *to = Rgb([blend(red), blend(green), blend(blue)]);
    }
    flat
}

fn resize(image: RgbImage, side: u32) -> Result<RgbImage, String> {
    let (width, height) = image.dimensions();
    let longest = width.max(height);
    if longest <= side {
        return Ok(image);
    }
    let scaled = |it: u32| {
        let scaled = u64::from(it) * u64::from(side) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(side).max(1)
    };
    // The resize library is compiled for four bytes per pixel only; each further pixel format adds 250
    // kB to every process.
    let image = DynamicImage::ImageRgba8(DynamicImage::ImageRgb8(image).into_rgba8());
    let mut out = DynamicImage::ImageRgba8(RgbaImage::new(scaled(width), scaled(height)));
    let algorithm = ResizeAlg::Convolution(FilterType::CatmullRom);
    let options = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
    Resizer::new()
        .resize(&image, &mut out, &options)
        .map_err(|err| format!("it cannot be made smaller: {err}"))?;
    Ok(out.into_rgb8())
}

fn jpeg(image: &RgbImage, quality: u8) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    JpegEncoder::new_with_quality(&mut data, quality).encode_image(image).map_err(|err| broken(&err))?;
    Ok(data)
}
