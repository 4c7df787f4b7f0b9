//! Finds the invisible parts of a page: hidden elements and form controls.

use super::tags::OpenTag;

/// Whether the element is a form control. A button that expands text (`aria-expanded`, `aria-controls`)
/// is not.
pub(super) fn is_control(tag: &OpenTag<'_>) -> bool {
    match &*tag.name {
        "button" => tag.attribute("aria-expanded").is_none() && tag.attribute("aria-controls").is_none(),
        "select" | "textarea" | "datalist" | "clipboard-copy" => true,
        _ => false,
    }
}

/// Whether the element is not displayed.
pub(super) fn is_hidden(tag: &OpenTag<'_>) -> bool {
    if tag.is_bare() {
        return tag.name == "dialog";
    }
    let style = tag.attribute("style").unwrap_or_default();
    let style: String =
        style.chars().filter(|it| !it.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let hidden = tag.attribute("hidden").is_some_and(|it| !it.eq_ignore_ascii_case("until-found"));
    let closed = tag.name == "dialog" && tag.attribute("open").is_none();
    hidden || closed || tag.has_class_of(&HIDDEN_CLASSES) || style_hides(&style)
}

/// Classes of invisible or duplicate elements: alternate forms of formulas, edit links, labels of
/// collapsed sections.
const HIDDEN_CLASSES: [&str; 5] =
    ["katex-html", "MJX_Assistive_MathML", "mwe-math-fallback-image-inline", "mw-editsection", "hideme"];

/// Whether a style attribute makes the element invisible. Expects lower case without spaces.
fn style_hides(style: &str) -> bool {
    if style.is_empty() {
        return false;
    }
    let declarations = || style.split(';').filter_map(|it| it.split_once(':'));
    let is = |name: &str, test: &dyn Fn(&str) -> bool| {
        declarations().any(|(it, value)| it == name && test(value.trim_end_matches("!important")))
    };
    let zero = |value: &str| {
        let number = value.trim_end_matches(|it: char| it.is_ascii_alphabetic() || it == '%');
        number.parse::<f64>().is_ok_and(|it| it == 0.0)
    };
    let far = |value: &str| {
        let number = value.trim_end_matches(|it: char| it.is_ascii_alphabetic() || it == '%');
        value.starts_with('-') && number.parse::<f64>().is_ok_and(|it| it <= -999.0)
    };
    let no_box = is("overflow", &|it| it == "hidden") && (is("height", &zero) || is("width", &zero));
    is("display", &|it| it == "none")
        || is("visibility", &|it| matches!(it, "hidden" | "collapse"))
        || is("font-size", &zero)
        || is("opacity", &zero)
        || ["left", "top", "right", "text-indent", "margin-left"].iter().any(|name| is(name, &far))
        || no_box
}
