//! The tool AskUserQuestion: shows its questions as cards.

use haft_tool::UserQuestion;
use haft_tui::{CardAnswer, ChoiceOption, QuestionCard, QuestionKind};

/// Builds the card of one question; `left` is the number of unanswered questions of the call.
pub(super) fn question_card(
    question: &UserQuestion,
    id: &str,
    from: Option<String>,
    left: usize,
) -> QuestionCard {
    let UserQuestion { question: headline, header, options, multi_select } = question;
    let mut rows: Vec<ChoiceOption> = Vec::new();
    for (at, option) in options.iter().enumerate() {
        let key = char::from_digit(u32::try_from(at + 1).unwrap_or(0), 10).unwrap_or(' ');
        let detail = Some(option.description.clone()).filter(|it| !it.is_empty()).into_iter().collect();
        rows.push(ChoiceOption { key, label: option.label.clone(), detail, ..ChoiceOption::default() });
    }
    let words = if *multi_select { "That is all, and:" } else { "Something else:" };
    rows.push(ChoiceOption { key: 'o', label: words.to_owned(), words: true, ..ChoiceOption::default() });
    let title = if header.is_empty() { "Question" } else { header };
    let title = if 1 < left { format!("{title} ({left} to answer)") } else { title.to_owned() };
    let kind = if *multi_select { QuestionKind::Many(rows) } else { QuestionKind::Choice(rows) };
    QuestionCard { id: id.to_owned(), from, title, headline: headline.clone(), body: Vec::new(), kind }
}

/// The user's answer as text; `None` if nothing was chosen or typed.
pub(super) fn answer_text(question: &UserQuestion, answer: &CardAnswer) -> Option<String> {
    let label = |row: &usize| question.options.get(*row).map(|it| it.label.clone());
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use haft_tui::ChosenOption;
    use serde_json::json;

    use super::*;

    #[test]
    fn options_marks_and_other_words_are_answers() {
        let all: Vec<UserQuestion> = serde_json::from_value(json!([
            {"question": "Which?", "header": "Kind", "options": [
                {"label": "A", "description": "a"}, {"label": "B", "description": ""}]},
            {"question": "What else?", "header": "", "multiSelect": true, "options": [
                {"label": "C", "description": ""}, {"label": "D", "description": ""}]},
        ]))
        .unwrap();
        let choice = |row, words: &str| CardAnswer::Choice(ChosenOption { row, words: words.to_owned() });
        assert_eq!(answer_text(&all[0], &choice(1, "")).as_deref(), Some("B"));
        assert_eq!(answer_text(&all[0], &choice(2, "neither")).as_deref(), Some("neither"));
        let many = CardAnswer::Many(vec![0, 1], String::from("E"));
        assert_eq!(answer_text(&all[1], &many).as_deref(), Some("C, D, E"));
        assert_eq!(answer_text(&all[1], &CardAnswer::Cancelled), None);
        assert_eq!(question_card(&all[0], "q", None, 2).title, "Kind (2 to answer)");
    }
}
