//! Parses job files.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use haft_fleet_store::JobRequirements;
use serde::Deserialize;
use serde_json::Value;

use super::{
    BatchBudget, BatchRate, FileLocation, FileProblem, FileRefused, JobBody, JobPlan, PlanDefaults,
    PlannedJob, Share, StartRate,
    job_names::{JobHeads, job_id, text_of, unknown_field},
    located_yaml::{LocatedError, LocatedNode, LocatedValue},
    needs_section::{self, NeededName},
    placeholders, rows,
};

/// Fields of a job.
const JOB_FIELDS: [&str; 17] = [
    "prompt",
    "prompt_file",
    "workspace",
    "flags",
    "limits",
    "check",
    "results",
    "secrets",
    "env",
    "retry",
    "on_unknown",
    "checkpoint",
    "pool",
    "class",
    "concurrency_key",
    "needs",
    "on_question",
];
/// Fields of a file.
const FILE_FIELDS: [&str; 8] =
    ["version", "batch", "defaults", "matrix", "jobs", "budget", "rate", "rollout"];
/// Maximum jobs in a file.
const MAX_JOBS: usize = 1_000_000;

impl JobPlan {
    /// Reads a file; the extension selects the format: `.yaml`, `.yml`, `.json`, `.jsonl`, `.ndjson`,
    /// `.csv`. On failure all errors are returned.
    pub fn read(path: &Path, defaults: &PlanDefaults) -> Result<Self, FileRefused> {
        let bytes = std::fs::read(path)
            .map_err(|err| refused(path, vec![(FileLocation::default(), err.to_string())]))?;
        let text = String::from_utf8(bytes).map_err(|err| {
            let good = &err.as_bytes()[..err.utf8_error().valid_up_to()];
            let row = good.iter().filter(|it| **it == b'\n').count() + 1;
            let column = good.iter().rev().take_while(|it| **it != b'\n').count() + 1;
            refused(path, vec![(FileLocation { row, column }, String::from("this is no UTF-8"))])
        })?;
        Self::parse(path, &text, defaults)
    }

    /// Like [`read`](Self::read) for a text. `path` selects the format, and relative file names are
    /// resolved against it.
    pub fn parse(path: &Path, text: &str, defaults: &PlanDefaults) -> Result<Self, FileRefused> {
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_lowercase();
        let wrong = |problem: LocatedError| refused(path, vec![problem]);
        let tree = match ending.as_str() {
            "yaml" | "yml" => LocatedNode::of_yaml(text).map_err(wrong)?,
            "json" => LocatedNode::of_json(text).map_err(wrong)?,
            "jsonl" | "ndjson" => table_of(rows::of_json_lines(text).map_err(|it| refused(path, it))?),
            "csv" => table_of(rows::of_csv(text).map_err(|it| refused(path, it))?),
            _ => {
                let why = "a job file ends in .yaml, .json, .jsonl or .csv";
                return Err(wrong((START, why.to_owned())));
            }
        };
        let tree = match tree.list() {
            Some(_) => LocatedValue::Table(vec![(String::from("jobs"), tree.at, tree.clone())]).at(tree.at),
            None => tree,
        };
        let is_table = matches!(ending.as_str(), "csv" | "jsonl" | "ndjson");
        PlanReading {
            path,
            defaults,
            wrong: Vec::new(),
            is_table,
            names: HashMap::new(),
            needed: HashMap::new(),
        }
        .plan(&tree, text)
    }
}

const START: FileLocation = FileLocation { row: 1, column: 1 };

impl LocatedValue {
    fn at(self, at: FileLocation) -> LocatedNode {
        LocatedNode { at, value: self }
    }
}

fn table_of(rows: Vec<LocatedNode>) -> LocatedNode {
    LocatedValue::Table(vec![(String::from("jobs"), START, LocatedValue::List(rows).at(START))]).at(START)
}

fn refused(path: &Path, wrong: Vec<LocatedError>) -> FileRefused {
    let problem = |(place, reason)| FileProblem { file: path.to_owned(), place, reason };
    FileRefused(wrong.into_iter().map(problem).collect())
}

/// State of parsing a file.
struct PlanReading<'a> {
    path: &'a Path,
    defaults: &'a PlanDefaults,
    wrong: Vec<LocatedError>,
    /// Whether every column is a placeholder value, as in CSV.
    is_table: bool,
    /// Names of jobs, by id.
    names: HashMap<String, String>,
    /// Names of required jobs, by id.
    needed: HashMap<String, Vec<NeededName>>,
}

/// Rows of jobs and their file.
struct JobRows {
    rows: Vec<LocatedNode>,
    key: Option<(String, FileLocation)>,
    /// Whether rows contain only placeholder values.
    are_values: bool,
}

impl PlanReading<'_> {
    fn plan(mut self, tree: &LocatedNode, text: &str) -> Result<JobPlan, FileRefused> {
        let Some(fields) = tree.table() else {
            let why = "a job file is a table with `jobs`, or a list of jobs";
            return Err(refused(self.path, vec![(tree.at, why.to_owned())]));
        };
        for (name, at, _) in fields {
            if !FILE_FIELDS.contains(&name.as_str()) {
                self.wrong.push((*at, unknown_field(name, &FILE_FIELDS)));
            }
        }
        if let Some(version) = tree.get("version")
            && version.plain() != 1
        {
            let why = format!("version {} is not known here; this haft reads version 1", version.plain());
            self.wrong.push((version.at, why));
        }
        let batch = self.batch_name(tree, text);
        let budget = self.typed::<BatchBudget>(tree.get("budget"));
        let rate = self.rate(tree.get("rate"));
        let rollout = self.rollout(tree.get("rollout"));
        let matrix = self.matrix(tree.get("matrix"));
        let rows = self.rows(tree);
        let jobs = rows.map(|rows| self.jobs(tree, &rows, &matrix, &batch)).unwrap_or_default();
        if jobs.is_empty() && self.wrong.is_empty() {
            self.wrong.push((tree.at, String::from("there is no job in it")));
        }
        if !self.wrong.is_empty() {
            self.wrong.sort();
            self.wrong.dedup();
            return Err(refused(self.path, self.wrong));
        }
        Ok(JobPlan { batch, jobs, budget, rate, rollout })
    }

    fn batch_name(&mut self, tree: &LocatedNode, text: &str) -> String {
        if let Some(name) = &self.defaults.batch {
            return name.clone();
        }
        if let Some(named) = tree.get("batch") {
            let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
            match named.plain() {
                Value::String(name) if !name.is_empty() && name.chars().all(fits) => return name,
                _ => self.wrong.push((
                    named.at,
                    String::from("the name of a batch is made of letters, digits, `-`, `_` and `.`"),
                )),
            }
        }
        let stem = self.path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let stem: String =
            stem.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).take(40).collect();
        let prompt = self.defaults.prompt.as_deref().unwrap_or_default();
        let hash = blake3::hash(format!("{text}\0{prompt}").as_bytes());
        format!("{stem}-{}", &hash.to_hex()[..8])
    }

    fn typed<T: Default + for<'de> Deserialize<'de>>(&mut self, part: Option<&LocatedNode>) -> T {
        let Some(part) = part else { return T::default() };
        match serde_path_to_error::deserialize(part.plain()) {
            Ok(value) => value,
            Err(err) => {
                self.wrong.push((part.place_of(err.path()), err.inner().to_string()));
                T::default()
            }
        }
    }

    fn rate(&mut self, part: Option<&LocatedNode>) -> BatchRate {
        let mut rate = BatchRate::default();
        for (name, at, value) in part.and_then(LocatedNode::table).unwrap_or_default() {
            match (name.as_str(), value.plain()) {
                ("max_running", Value::Number(most)) if most.as_u64().is_some_and(|it| 0 < it) => {
                    rate.max_running = most.as_u64().and_then(|it| u32::try_from(it).ok());
                }
                ("start", Value::String(text)) => match StartRate::parse(&text) {
                    Ok(start) => rate.start = Some(start),
                    Err(why) => self.wrong.push((value.at, why)),
                },
                ("max_running", _) => {
                    self.wrong.push((value.at, String::from("a number of jobs, 1 or more")))
                }
                ("start", _) => self.wrong.push((value.at, String::from("a rate such as 5/s"))),
                _ => self.wrong.push((*at, unknown_field(name, &["max_running", "start"]))),
            }
        }
        rate
    }

    fn rollout(&mut self, part: Option<&LocatedNode>) -> Vec<Share> {
        let Some(part) = part else { return Vec::new() };
        let Some(stages) = part.list() else {
            self.wrong.push((part.at, String::from("a list of stages such as [1, 5%, 100%]")));
            return Vec::new();
        };
        let mut shares = Vec::new();
        for stage in stages {
            let text = match stage.plain() {
                Value::String(text) => text,
                other => other.to_string(),
            };
            match Share::parse(&text) {
                Ok(share) => shares.push(share),
                Err(why) => self.wrong.push((stage.at, why)),
            }
        }
        shares
    }

    /// Returns all combinations of a matrix's values; a single empty one if there is no matrix.
    fn matrix(&mut self, part: Option<&LocatedNode>) -> Vec<Vec<(String, FileLocation, LocatedNode)>> {
        let mut combinations = vec![Vec::new()];
        let Some(part) = part else { return combinations };
        let Some(fields) = part.table() else {
            self.wrong.push((part.at, String::from("a table of lists, such as {os: [linux, mac]}")));
            return combinations;
        };
        for (name, at, values) in fields {
            let Some(values) = values.list().filter(|it| !it.is_empty()) else {
                self.wrong.push((values.at, format!("`{name}` needs a list of values")));
                continue;
            };
            if MAX_JOBS < combinations.len().saturating_mul(values.len()) {
                self.wrong.push((*at, format!("that is more than {MAX_JOBS} jobs")));
                return combinations;
            }
            let longer = combinations.iter().flat_map(|it: &Vec<_>| {
                values.iter().map(move |value| {
                    let mut longer = it.clone();
                    longer.push((name.clone(), value.at, value.clone()));
                    longer
                })
            });
            combinations = longer.collect();
        }
        combinations
    }

    fn rows(&mut self, tree: &LocatedNode) -> Option<JobRows> {
        let Some(jobs) = tree.get("jobs") else {
            let has_matrix = tree.get("matrix").is_some();
            if !has_matrix {
                self.wrong.push((tree.at, String::from("`jobs` is missing")));
            }
            let one = LocatedValue::Table(Vec::new()).at(tree.at);
            return has_matrix.then(|| JobRows { rows: vec![one], key: None, are_values: false });
        };
        if let Some(rows) = jobs.list() {
            for row in rows.iter().filter(|it| it.table().is_none()) {
                self.wrong.push((row.at, String::from("a job is a table")));
            }
            return Some(JobRows { rows: rows.to_vec(), key: None, are_values: self.is_table });
        }
        let key = jobs.get("key").map(|it| (text_of(&it.plain()), it.at));
        let known = ["csv", "jsonl", "key"];
        for (name, at, _) in jobs.table().unwrap_or_default() {
            if !known.contains(&name.as_str()) {
                self.wrong.push((*at, unknown_field(name, &known)));
            }
        }
        let file = |kind: &str| jobs.get(kind).map(|it| (it.at, self.beside(&text_of(&it.plain()))));
        let (csv, jsonl) = (file("csv"), file("jsonl"));
        let (at, path, is_csv) = match (csv, jsonl) {
            (Some((at, path)), None) => (at, path, true),
            (None, Some((at, path))) => (at, path, false),
            _ => {
                let why = "`jobs` is a list of jobs, or names one file: {csv: FILE} or {jsonl: FILE}";
                self.wrong.push((jobs.at, why.to_owned()));
                return None;
            }
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) => {
                self.wrong.push((at, format!("{}: {err}", path.display())));
                return None;
            }
        };
        let read = if is_csv { rows::of_csv(&text) } else { rows::of_json_lines(&text) };
        match read {
            Ok(rows) => Some(JobRows { rows, key, are_values: true }),
            Err(wrong) => {
                let told = wrong.into_iter().map(|(place, reason)| {
                    let FileLocation { row, column } = place;
                    (at, format!("{}: row {row}, column {column}: {reason}", path.display()))
                });
                self.wrong.extend(told);
                None
            }
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    fn jobs(
        &mut self,
        tree: &LocatedNode,
        rows: &JobRows,
        matrix: &[Vec<(String, FileLocation, LocatedNode)>],
        batch: &str,
    ) -> Vec<PlannedJob> {
        let mut jobs = Vec::new();
        let mut seen: HashMap<String, FileLocation> = HashMap::new();
        if MAX_JOBS < rows.rows.len().saturating_mul(matrix.len()) {
            self.wrong.push((tree.at, format!("that is more than {MAX_JOBS} jobs")));
            return jobs;
        }
        let defaults = self.default_job(tree);
        for row in &rows.rows {
            for combination in matrix {
                let job = self.job(&defaults, rows, row, combination, batch, &mut seen);
                jobs.extend(job);
                if 200 < self.wrong.len() {
                    return jobs;
                }
            }
        }
        needs_section::in_order(jobs, &self.names, &self.needed, &mut self.wrong)
    }

    fn default_job(&mut self, tree: &LocatedNode) -> LocatedNode {
        let empty = LocatedValue::Table(Vec::new()).at(tree.at);
        let given =
            self.defaults.job.clone().map_or_else(|| empty.clone(), |it| LocatedNode::at_once(it, START));
        let of_file = tree.get("defaults").unwrap_or(&empty);
        for (name, at, _) in of_file.table().unwrap_or_default() {
            if !JOB_FIELDS.contains(&name.as_str()) {
                self.wrong.push((*at, unknown_field(name, &JOB_FIELDS)));
            }
        }
        // A source on the command line replaces the one in the file.
        given.under(of_file)
    }

    fn job(
        &mut self,
        defaults: &LocatedNode,
        rows: &JobRows,
        row: &LocatedNode,
        combination: &[(String, FileLocation, LocatedNode)],
        batch: &str,
        seen: &mut HashMap<String, FileLocation>,
    ) -> Option<PlannedJob> {
        let fields = row.table()?;
        let is_field = |name: &str| !rows.are_values && JOB_FIELDS.contains(&name);
        let mut own = Vec::new();
        let mut labels = BTreeMap::new();
        for (name, at, value) in fields.iter().chain(combination) {
            if is_field(name) {
                own.push((name.clone(), *at, value.clone()));
            } else if let LocatedValue::One(one) = &value.value {
                labels.insert(name.clone(), text_of(one));
            } else {
                self.wrong.push((value.at, format!("`{name}` must be a text or a number")));
            }
        }
        let mut job = defaults.under(&LocatedValue::Table(own).at(row.at));
        self.set_prompt(&mut job, row.at);
        self.refuse_unused(&job, &labels, fields, rows.are_values);
        let dedup = self.dedup(rows, row, &labels, combination, batch, seen)?;
        let id = job_id(&self.defaults.tenant, &dedup);
        let mut values = labels.clone();
        values.insert(String::from("batch"), batch.to_owned());
        values.insert(String::from("id"), id.clone());
        let before = self.wrong.len();
        let filled = job.with_texts(
            &mut |text, at| placeholders::fill(text, &values).map_err(|why| (at, why)),
            &mut self.wrong,
        );
        let key = rows.key.as_ref().map_or("name", |it| it.0.as_str());
        self.names.extend(labels.get(key).map(|name| (id.clone(), name.clone())));
        let needs = self.needs(&id, filled.get("needs"));
        let mut body = filled.plain();
        body.as_object_mut().and_then(|it| it.shift_remove("needs"));
        let head = |body: &mut Value, name: &str| {
            body.as_object_mut().and_then(|it| it.shift_remove(name)).map(|it| text_of(&it))
        };
        let pool = head(&mut body, "pool").unwrap_or_else(|| String::from("default"));
        let class = head(&mut body, "class").unwrap_or_else(|| String::from("normal"));
        let concurrency_key = head(&mut body, "concurrency_key");
        if !["urgent", "normal", "bulk"].contains(&class.as_str()) {
            let at = filled.get("class").map_or(row.at, |it| it.at);
            self.wrong.push((at, format!("`{class}` is no class; urgent, normal and bulk are")));
        }
        let heads = JobHeads {
            pool: &pool,
            concurrency_key: concurrency_key.as_deref(),
            dedup: &dedup,
            labels: &labels,
        };
        if let Some((name, why)) = heads.problem() {
            self.wrong.push((filled.get(name).map_or(row.at, |it| it.at), why));
        }
        let body = match serde_path_to_error::deserialize::<_, JobBody>(body) {
            Ok(body) => body,
            Err(err) => {
                self.wrong.push((filled.place_of(err.path()), err.inner().to_string()));
                return None;
            }
        };
        self.judge(&body, &filled, row.at);
        (self.wrong.len() == before).then_some(PlannedJob {
            dedup,
            id,
            pool,
            class,
            concurrency_key,
            labels,
            needs,
            body,
            place: row.at,
        })
    }

    /// Parses the needs of a job; names are resolved when all jobs are known.
    fn needs(&mut self, id: &str, part: Option<&LocatedNode>) -> JobRequirements {
        let Some(part) = part else { return JobRequirements::default() };
        let (machine, needed) = needs_section::read_needs(part, &mut self.wrong);
        if !needed.is_empty() {
            self.needed.insert(id.to_owned(), needed);
        }
        JobRequirements { machine, runs: Vec::new() }
    }

    /// Checks that a job is consistent.
    fn judge(&mut self, body: &JobBody, filled: &LocatedNode, at: FileLocation) {
        let place_of = |name: &str| filled.get(name).map_or(at, |it| it.at);
        if body.prompt.trim().is_empty() {
            self.wrong.push((
                place_of("prompt"),
                String::from("there is no prompt: `prompt`, `prompt_file` or -p"),
            ));
        }
        if let Err(why) = body.check_sense() {
            self.wrong.push((place_of("workspace"), why));
        }
        for packed in [&body.workspace.bundle, &body.workspace.tar].into_iter().flatten() {
            let path = self.beside(packed);
            if !packed.starts_with("blob:") && !path.exists() {
                self.wrong.push((place_of("workspace"), format!("{} is not there", path.display())));
            }
        }
        if body.limits.usd.is_some_and(|it| !(it.is_finite() && 0.0 < it)) {
            self.wrong.push((place_of("limits"), String::from("`usd` must be more than nothing")));
        }
    }

    /// Replaces `prompt_file` by `prompt`; the command line's prompt is the default.
    fn set_prompt(&mut self, job: &mut LocatedNode, at: FileLocation) {
        let LocatedValue::Table(fields) = &mut job.value else { return };
        if let Some(place) = fields.iter().position(|(name, _, _)| name == "prompt_file") {
            let (_, _, file) = fields.remove(place);
            let path = self.path.parent().unwrap_or(Path::new("")).join(text_of(&file.plain()));
            match std::fs::read_to_string(&path) {
                Err(err) => self.wrong.push((file.at, format!("{}: {err}", path.display()))),
                Ok(_) if fields.iter().any(|(name, _, _)| name == "prompt") => {
                    self.wrong
                        .push((file.at, String::from("there is `prompt` and `prompt_file`; one is enough")));
                }
                Ok(text) => {
                    let text = LocatedValue::One(Value::String(text)).at(file.at);
                    fields.push((String::from("prompt"), file.at, text));
                }
            }
        }
        if let Some(prompt) = &self.defaults.prompt
            && !fields.iter().any(|(name, _, _)| name == "prompt")
        {
            let text = LocatedValue::One(Value::String(prompt.clone())).at(at);
            fields.push((String::from("prompt"), at, text));
        }
    }

    /// Reports a column that fills no placeholder and resembles a field name: probably a typo and not a
    /// label.
    fn refuse_unused(
        &mut self,
        job: &LocatedNode,
        labels: &BTreeMap<String, String>,
        fields: &[(String, FileLocation, LocatedNode)],
        are_values: bool,
    ) {
        if are_values {
            return;
        }
        let mut used = Vec::new();
        job.with_texts(
            &mut |text, _| {
                used.extend(placeholders::names(text));
                Ok(String::new())
            },
            &mut Vec::new(),
        );
        for (name, at, _) in fields.iter().filter(|(name, _, _)| labels.contains_key(name)) {
            let meant = haft_types::nearest(name, JOB_FIELDS, 1);
            if !used.contains(name) && !meant.is_empty() {
                self.wrong.push((*at, unknown_field(name, &JOB_FIELDS)));
            }
        }
    }

    fn dedup(
        &mut self,
        rows: &JobRows,
        row: &LocatedNode,
        labels: &BTreeMap<String, String>,
        combination: &[(String, FileLocation, LocatedNode)],
        batch: &str,
        seen: &mut HashMap<String, FileLocation>,
    ) -> Option<String> {
        let of_matrix: String =
            combination.iter().map(|(_, _, it)| format!("/{}", text_of(&it.plain()))).collect();
        if let Some((key, at)) = &rows.key {
            let Some(value) = labels.get(key).filter(|it| !it.is_empty()) else {
                let why = format!("the key `{key}` has no value in row {}", row.at.row);
                self.wrong.push((*at, why));
                return None;
            };
            let dedup = format!("{batch}/{value}{of_matrix}");
            if let Some(first) = seen.insert(dedup.clone(), row.at) {
                let why = format!("`{key}` is `{value}` in row {} and in row {}", first.row, row.at.row);
                self.wrong.push((*at, why));
                return None;
            }
            return Some(dedup);
        }
        // Identical rows are separate jobs, but submitting the same file twice gives the same ids.
        let content = blake3::hash(row.plain().to_string().as_bytes()).to_hex()[..16].to_owned();
        let mut dedup = format!("{batch}/{content}{of_matrix}");
        let mut number = 1;
        while seen.contains_key(&dedup) {
            number += 1;
            dedup = format!("{batch}/{content}-{number}{of_matrix}");
        }
        seen.insert(dedup.clone(), row.at);
        Some(dedup)
    }
}
