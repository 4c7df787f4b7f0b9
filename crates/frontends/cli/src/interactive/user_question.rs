//! A call that is itself a question to the person: what they say becomes its
//! input (`{"questions": [{"question", "header", "options": [{"label",
//! "description"}], "multiSelect"}]}`).

use haft_tui::{CardAnswer, ChoiceOption, QuestionCard, QuestionKind};
use serde_json::Value;

/// One question.
pub(super) struct UserChoiceQuestion {
    pub(super) question: String,
    header: String,
    options: Vec<(String, String)>,
    many: bool,
}

impl UserChoiceQuestion {
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

    pub(super) fn card(&self, id: &str, from: Option<String>, left: usize) -> QuestionCard {
        let mut rows: Vec<ChoiceOption> = Vec::new();
        for (at, (label, about)) in self.options.iter().enumerate() {
            let key = char::from_digit(u32::try_from(at + 1).unwrap_or(0), 10).unwrap_or(' ');
            let detail = Some(about.clone()).filter(|it| !it.is_empty()).into_iter().collect();
            rows.push(ChoiceOption { key, label: label.clone(), detail, ..ChoiceOption::default() });
        }
        let words = if self.many { "That is all, and:" } else { "Something else:" };
        rows.push(ChoiceOption { key: 'o', label: words.to_owned(), words: true, ..ChoiceOption::default() });
        let title = if self.header.is_empty() { String::from("Question") } else { self.header.clone() };
        let title = if 1 < left { format!("{title} ({left} to answer)") } else { title };
        let kind = if self.many { QuestionKind::Many(rows) } else { QuestionKind::Choice(rows) };
        let headline = self.question.clone();
        QuestionCard { id: id.to_owned(), from, title, headline, body: Vec::new(), kind }
    }

    /// What was answered, in words; nothing when there is no answer.
    pub(super) fn words(&self, answer: &CardAnswer) -> Option<String> {
        let label = |row: &usize| self.options.get(*row).map(|it| it.0.clone());
        match answer {
            CardAnswer::Choice(choice) => label(&choice.row).or(Some(choice.words.clone())),
            CardAnswer::Many(rows, words) => {
                let mut said: Vec<String> = rows.iter().filter_map(label).collect();
                said.extend(Some(words.trim().to_owned()).filter(|it| !it.is_empty()));
                Some(said.join(", "))
            }
            CardAnswer::Form(_) | CardAnswer::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_tui::ChosenOption;
    use serde_json::json;

    use super::*;

    #[test]
    fn options_marks_and_other_words_are_answers() {
        let input = json!({"questions": [
            {"question": "Which?", "header": "Kind", "options": [{"label": "A", "description": "a"}, {"label": "B"}]},
            {"question": "What else?", "options": [{"label": "C"}, {"label": "D"}], "multiSelect": true},
        ]});
        let all = UserChoiceQuestion::all(&input);
        let choice = |row, words: &str| CardAnswer::Choice(ChosenOption { row, words: words.to_owned() });
        assert_eq!(all[0].words(&choice(1, "")).as_deref(), Some("B"));
        assert_eq!(all[0].words(&choice(2, "neither")).as_deref(), Some("neither"));
        assert_eq!(
            all[1].words(&CardAnswer::Many(vec![0, 1], String::from("E"))).as_deref(),
            Some("C, D, E")
        );
        assert_eq!(all[1].words(&CardAnswer::Cancelled), None);
        assert_eq!(all[0].card("q", None, 2).title, "Kind (2 to answer)");
        let twice = json!({"questions": [{"question": "Which?"}, {"question": "Which?"}]});
        assert!(UserChoiceQuestion::all(&twice).is_empty());
    }
}
