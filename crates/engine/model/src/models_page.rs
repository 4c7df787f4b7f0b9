//! The page about the built-in list of models, written from the list.

use crate::{Catalog, ModelInfo, PriceAbove, ThinkingSupport, ToolCalls};

/// What is known about each built-in model, as a Markdown page.
pub fn models_page() -> String {
    let mut page = String::from(
        "# Models\n\nWhat Haft knows about models: context window, longest answer, prices and abilities. Written by \
         `cargo xtask docs`; do not edit.\n\n```sh\nhaft models\n```\n\n`haft models` shows this list with your own \
         entries and the models of servers on this machine. A model that is not listed gets the entry with the \
         longest name that its own name begins with, after prefixes and suffixes of clouds and dates are removed; if \
         there is none, it is used with careful defaults and without prices. How to choose a model: \
         [Models](../guides/models.md).\n\nWindow and answer are in tokens; prices are US dollars per million \
         tokens: input, output, input read from the cache, input written to the cache (for five minutes).\n\n\
         | model | short name, other names | window | answer | in | out | cache read | cache write | thinking | effort | reads |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---|---|---|\n",
    );
    let built_in = Catalog::built_in();
    let models = built_in.models();
    models.iter().for_each(|info| page.push_str(&model_row(info)));
    page.push_str("\nLonger prompts cost more for these models:\n\n");
    page.push_str(
        "| model | prompts over | in | out | cache read | cache write |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for info in models {
        if let Some(above) = info.price.and_then(|price| price.above) {
            page.push_str(&above_row(&info.id, &above));
        }
    }
    page.push_str(OWN_ENTRIES);
    page
}

const OWN_ENTRIES: &str = "\n## Your own entries\n\n`~/.haft/models.json` holds a list of the same form; its entries \
    win over the built-in ones.\n\n```json\n[{\"id\": \"my-model\", \"window\": 131072, \"max_output\": 8192, \
    \"tool_calls\": \"prompted\"}]\n```\n\n| field | meaning |\n|---|---|\n\
    | `id`, `aliases` | name of the model, or how the names of its family begin; other names |\n\
    | `short` | a word to type for it |\n\
    | `window`, `max_output` | tokens of input and output together; longest answer |\n\
    | `price` | `input`, `output`, `cache_read`, `cache_write`, `cache_write_1h` in dollars per million tokens; `fast`: factor of fast mode; `above`: other prices from `tokens` on |\n\
    | `thinking` | `none`, `budget`, `adaptive`, `both`, `always`, `effort` |\n\
    | `efforts` | the efforts it takes |\n\
    | `forced_tools`, `sampling` | whether it can be forced to call a tool; whether it takes a temperature |\n\
    | `images`, `documents` | whether it reads images; PDFs |\n\
    | `tool_references`, `structured_output` | whether tools can be loaded behind the cached prefix; whether the provider enforces a JSON schema |\n\
    | `fast` | whether there is a fast mode |\n\
    | `dialects`, `tool_calls` | whether it may write calls as text; `native`, or `prompted` for models without tool calls |\n\
    | `betas` | beta features to request |\n";

fn model_row(info: &ModelInfo) -> String {
    let short = info.short.iter().map(|it| format!("**{it}**"));
    let names: Vec<String> = short.chain(info.aliases.iter().map(|it| format!("`{it}`"))).collect();
    let price = info.price.map_or([String::new(), String::new(), String::new(), String::new()], |it| {
        [it.input, it.output, it.cache_read, it.cache_write].map(|dollars| dollars.to_string())
    });
    let reads: Vec<&str> =
        [(info.images, "images"), (info.documents, "PDF")].iter().filter(|it| it.0).map(|it| it.1).collect();
    let note = if info.tool_calls == ToolCalls::Prompted { ", tool calls as text" } else { "" };
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} | {}{note} |\n",
        info.id,
        names.join(", "),
        info.window,
        info.max_output,
        price.join(" | "),
        thinking_word(info.thinking),
        info.efforts.join(", "),
        reads.join(", "),
    )
}

fn above_row(id: &str, above: &PriceAbove) -> String {
    let PriceAbove { tokens, input, output, cache_read, cache_write, .. } = above;
    format!("| `{id}` | {tokens} | {input} | {output} | {cache_read} | {cache_write} |\n")
}

fn thinking_word(thinking: ThinkingSupport) -> &'static str {
    match thinking {
        ThinkingSupport::None => "",
        ThinkingSupport::Budget => "budget",
        ThinkingSupport::Adaptive => "adaptive",
        ThinkingSupport::Both => "budget, adaptive",
        ThinkingSupport::Always => "always",
        ThinkingSupport::Effort => "effort only",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_row_and_every_field_is_explained() {
        let page = models_page();
        for info in Catalog::built_in().models() {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` | ", info.id)));
            assert!(row.is_some_and(|row| row.contains(&info.window.to_string())), "{}", info.id);
            assert_eq!(row.map(|row| row.matches(" | ").count()), Some(10), "{row:?}");
        }
        let fields = serde_json::to_value(ModelInfo::default()).unwrap_or_default();
        for name in fields.as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(OWN_ENTRIES.contains(&format!("`{name}`")), "{name} is not explained");
        }
    }
}
