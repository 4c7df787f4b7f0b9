use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs code in an interpreter that lives on between calls: variables, imports and functions stay.
/// The value of the last expression is shown; `await` works at the top level of JavaScript and Python.
/// Use it for calculations and for looking at data step by step; use Bash for single commands.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The code.
    #[schemars(length(min = 1))]
    pub code: String,
    /// In which language; javascript unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Name of the interpreter, when one per language is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Starts the interpreter anew first: everything it knew is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<bool>,
    /// Milliseconds the code may take; 30000 unless given, at most 600000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// What it does, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Languages there are interpreters for.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Node.
    #[default]
    JavaScript,
    /// Python 3.
    Python,
    /// bash.
    Shell,
}

impl Language {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
            Self::Shell => "Shell",
        }
    }

    /// Returns the command that starts the interpreter, and the driver program it runs.
    pub(crate) fn driver(self) -> (&'static str, &'static str) {
        match self {
            Self::JavaScript => ("exec node -e \"$HAFT_DRIVER\"", include_str!("driver.js")),
            Self::Python => (
                "exec \"$(command -v python3 || command -v python)\" -u -c \"$HAFT_DRIVER\"",
                include_str!("driver.py"),
            ),
            Self::Shell => {
                ("exec bash --norc --noprofile -c \"$HAFT_DRIVER\" bash", include_str!("driver.sh"))
            }
        }
    }
}

/// What came of the code.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What it printed.
    pub output: String,
    /// The value of the last expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The code the last command returned; Shell only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What else there is to know, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
}
