//! A call that is itself a question to the person: what they say becomes its
//! input (`{"questions": [{"question", "header", "options": [{"label",
//! "description"}], "multiSelect"}]}`).

use haft_tui::{AskAnswer, AskCard, AskKind, ChoiceRow};
use serde_json::Value;

/// One question.
pub(super) struct PersonQuestion {
    pub(super) question: String,
    header: String,
    options: Vec<(String, String)>,
    many: bool,
}

impl PersonQuestion {
    /// The questions of a call; none when it asks in another way. Answers are
    /// kept by the words of their questions, so those must differ.
    pub(super) fn all(input: &Value) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for it in input["questions"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let option = |it: &Value| (text(&it["label"]), text(&it["description"]));
            let question = text(&it["question"]);
            if all.iter().any(|other| other.question == question) {
                return Vec::new();
            }
            all.push(Self {
                question,
                header: text(&it["header"]),
                options: it["options"].as_array().into_iter().flatten().map(option).collect(),
                many: it["multiSelect"] == true,
            });
        }
        all
    }

    pub(super) fn card(&self, id: &str, from: Option<String>, left: usize) -> AskCard {
        let mut rows: Vec<ChoiceRow> = Vec::new();
        for (at, (label, about)) in self.options.iter().enumerate() {
            let key = char::from_digit(u32::try_from(at + 1).unwrap_or(0), 10).unwrap_or(' ');
            let detail = Some(about.clone()).filter(|it| !it.is_empty()).into_iter().collect();
            rows.push(ChoiceRow { key, label: label.clone(), detail, ..ChoiceRow::default() });
        }
        let words = if self.many { "That is all, and:" } else { "Something else:" };
        rows.push(ChoiceRow { key: 'o', label: words.to_owned(), words: true, ..ChoiceRow::default() });
        let title = if self.header.is_empty() { String::from("Question") } else { self.header.clone() };
        let title = if 1 < left { format!("{title} ({left} to answer)") } else { title };
        let kind = if self.many { AskKind::Many(rows) } else { AskKind::Choice(rows) };
        let headline = self.question.clone();
        AskCard { id: id.to_owned(), from, title, headline, body: Vec::new(), kind }
    }

    /// What was answered, in words; nothing when there is no answer.
    pub(super) fn words(&self, answer: &AskAnswer) -> Option<String> {
        let label = |row: &usize| self.options.get(*row).map(|it| it.0.clone());
        match answer {
            AskAnswer::Choice(choice) => label(&choice.row).or(Some(choice.words.clone())),
            AskAnswer::Many(rows, words) => {
                let mut said: Vec<String> = rows.iter().filter_map(label).collect();
                said.extend(Some(words.trim().to_owned()).filter(|it| !it.is_empty()));
                Some(said.join(", "))
            }
            AskAnswer::Form(_) | AskAnswer::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_tui::AskChoice;
    use serde_json::json;

    use super::*;

    #[test]
    fn options_marks_and_other_words_are_answers() {
        let input = json!({"questions": [
            {"question": "Which?", "header": "Kind", "options": [{"label": "A", "description": "a"}, {"label": "B"}]},
            {"question": "What else?", "options": [{"label": "C"}, {"label": "D"}], "multiSelect": true},
        ]});
        let all = PersonQuestion::all(&input);
        let choice = |row, words: &str| AskAnswer::Choice(AskChoice { row, words: words.to_owned() });
        assert_eq!(all[0].words(&choice(1, "")).as_deref(), Some("B"));
        assert_eq!(all[0].words(&choice(2, "neither")).as_deref(), Some("neither"));
        assert_eq!(all[1].words(&AskAnswer::Many(vec![0, 1], String::from("E"))).as_deref(), Some("C, D, E"));
        assert_eq!(all[1].words(&AskAnswer::Cancelled), None);
        assert_eq!(all[0].card("q", None, 2).title, "Kind (2 to answer)");
        let twice = json!({"questions": [{"question": "Which?"}, {"question": "Which?"}]});
        assert!(PersonQuestion::all(&twice).is_empty());
    }
}
