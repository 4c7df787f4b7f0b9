//! Skills as a model is told about them: within a budget, and honest about what
//! was left out.

use super::SlashCommand;

/// How much may be said about skills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ListingBudget {
    /// Characters of the whole list.
    pub(crate) all: usize,
    /// Characters of one description.
    pub(crate) each: usize,
}

impl ListingBudget {
    /// A share of a window, in tokens of about four characters.
    pub(crate) fn of_window(tokens: u64, fraction: f64, each: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of characters"
        )]
        let all = (tokens as f64 * 4.0 * fraction.clamp(0.0, 1.0)) as usize;
        Self { all: all.max(1), each: each.max(20) }
    }
}

/// A list of skills.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SkillListing {
    /// A line each.
    pub(crate) lines: Vec<String>,
    /// Descriptions that are not whole because of the budget.
    pub(crate) shortened: usize,
    /// Skills that are not in the list.
    pub(crate) left_out: usize,
}

/// Fewer characters describe nothing.
const LEAST: usize = 24;

/// Lists skills. Long descriptions give way to short ones: every skill keeps
/// the beginning of its own as long as that is possible, and names are left out
/// last.
pub(crate) fn listing(skills: &[&SlashCommand], budget: ListingBudget) -> SkillListing {
    let described: Vec<(&str, String)> = skills
        .iter()
        .map(|it| (it.name.as_str(), haft_tools::agent::flat(&it.description, budget.each)))
        .collect();
    let line = |name: &str, text: &str, most: usize| match haft_types::text::one_line(text, most) {
        text if text.is_empty() || most == 0 => format!("- {name}"),
        text => format!("- {name}: {text}"),
    };
    let size = |most: usize| -> usize {
        described.iter().map(|(name, text)| line(name, text, most).chars().count() + 1).sum()
    };
    let mut most = budget.each;
    if budget.all < size(most) {
        // The longest description that lets all of them in.
        let (mut fits, mut over) = (LEAST, most);
        while fits + 1 < over {
            let middle = usize::midpoint(fits, over);
            match size(middle) <= budget.all {
                true => fits = middle,
                false => over = middle,
            }
        }
        most = fits;
    }
    let mut found = SkillListing::default();
    let mut room = budget.all;
    for (name, text) in &described {
        let whole = line(name, text, most);
        let length = whole.chars().count() + 1;
        if room < length {
            found.left_out += 1;
            continue;
        }
        room -= length;
        found.shortened += usize::from(most < text.chars().count());
        found.lines.push(whole);
    }
    found
}

impl SkillListing {
    /// What is said behind the list about what it does not say.
    pub(crate) fn note(&self) -> Option<String> {
        let mut parts = Vec::new();
        if 0 < self.shortened {
            parts.push(format!("{} descriptions are shortened", self.shortened));
        }
        if 0 < self.left_out {
            parts.push(format!("{} more skills are not listed", self.left_out));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "({}; call Skill with `?` and some words as the name to search all of them.)",
                parts.join(", ")
            )
        })
    }
}

/// Skills that words are about, the best first.
pub(crate) fn search<'a>(skills: &[&'a SlashCommand], words: &str) -> Vec<&'a SlashCommand> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let score = |it: &SlashCommand| {
        let (name, about) = (it.name.to_lowercase(), it.description.to_lowercase());
        let of = |word: &String| usize::from(name.contains(word)) * 3 + usize::from(about.contains(word));
        words.iter().map(of).sum::<usize>()
    };
    let mut found: Vec<(usize, &SlashCommand)> = skills
        .iter()
        .map(|it| (score(it), *it))
        .filter(|(score, _)| 0 < *score || words.is_empty())
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    found.into_iter().map(|(_, it)| it).take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentSource,
        extensions::{FrontMatter, SlashKind},
    };

    fn skill(name: &str, description: &str) -> SlashCommand {
        let mut front = FrontMatter::parse(&format!("---\ndescription: {description}\n---\nbody"));
        let kind = SlashKind::Skill { body: String::new(), dir: "/".into() };
        SlashCommand::of_front(&mut front, name.to_owned(), kind, AgentSource::User)
    }

    #[test]
    fn every_skill_keeps_a_line_and_what_is_short_is_said() {
        let skills: Vec<SlashCommand> = (0..200)
            .map(|n| skill(&format!("skill-{n:03}"), &format!("About {n}. {}", "word ".repeat(60))))
            .collect();
        let all: Vec<&SlashCommand> = skills.iter().collect();
        for (budget, shortened, left_out) in
            [(100_000, 0, 0), (20_000, 200, 0), (8_000, 200, 0), (2_000, 52, 148)]
        {
            let found = listing(&all, ListingBudget { all: budget, each: 1_536 });
            assert_eq!((found.shortened, found.left_out), (shortened, left_out), "{budget}");
            let size: usize = found.lines.iter().map(|it| it.chars().count() + 1).sum();
            assert!(size <= budget, "{budget}: {size}");
            assert_eq!(found.lines.len(), 200 - left_out);
            assert!(found.lines.iter().enumerate().all(|(n, it)| it.contains(&format!("About {n}."))));
            assert_eq!(found.note().is_some(), shortened + left_out != 0);
        }
        let found = search(&all, "about 77.");
        assert_eq!(found[0].name, "skill-077");
        let short = [skill("a", "Short."), skill("b", &"long ".repeat(100))];
        let found = listing(&short.iter().collect::<Vec<_>>(), ListingBudget { all: 120, each: 1_536 });
        assert_eq!((found.lines[0].as_str(), found.shortened), ("- a: Short.", 1));
    }
}
