//! Job files: parsing and errors.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::Path;

use proptest::prelude::*;

use haft_fleet::job_file::{FileRefused, JobBody, JobPlan, PlanDefaults};

fn parse(name: &str, text: &str) -> Result<JobPlan, FileRefused> {
    let defaults = PlanDefaults { prompt: Some(String::from("do {repo}")), ..PlanDefaults::default() };
    JobPlan::parse(Path::new(name), text, &defaults)
}

#[test]
fn every_file_format_gives_the_same_jobs() {
    let forms = [
        ("a.csv", "repo,target\na,8\nb,9\n"),
        ("a.jsonl", "{\"repo\": \"a\", \"target\": \"8\"}\n\n{\"repo\": \"b\", \"target\": \"9\"}\n"),
        ("a.json", "[{\"repo\": \"a\", \"target\": 8}, {\"repo\": \"b\", \"target\": 9}]"),
        ("a.yaml", "jobs:\n  - {repo: a, target: 8}\n  - {repo: b, target: 9}\n"),
    ];
    for (name, text) in forms {
        let plan = parse(name, text).unwrap();
        let jobs: Vec<_> =
            plan.jobs.iter().map(|it| (it.body.prompt.as_str(), it.labels["target"].as_str())).collect();
        assert_eq!(jobs, [("do a", "8"), ("do b", "9")], "{name}");
    }
}

#[test]
fn job_file_with_every_field_parses() {
    let text = r#"
version: 1
batch: log4j-to-slf4j
defaults:
  pool: linux
  workspace: {git: "{repo}", ref: main, depth: 1, setup: ./ci/setup.sh, cache: [gradle.lockfile]}
  prompt: "migrate {repo} on {os}"
  flags: {model: sonnet, max-turns: 60, allowedTools: ["Bash(./gradlew *)"]}
  limits: {usd: 2.0, time: 45m, memory: 6G}
  check: ./gradlew test
  results: {branch: "haft/{batch}/{id}", files: ["build/reports/**"]}
  secrets: [MAVEN_TOKEN]
  retry: {max: 3, on: [lost, provider]}
matrix: {os: [linux, mac]}
budget: {usd: 800}
rate: {max_running: 200, start: 5/s}
rollout: [1, 5%, 100%]
jobs:
  - {repo: x}
  - {repo: y, limits: {usd: 3}}
"#;
    let plan = parse("jobs.yaml", text).unwrap();
    assert_eq!((plan.batch.as_str(), plan.jobs.len()), ("log4j-to-slf4j", 4));
    assert_eq!(plan.budget.usd, Some(800.0));
    assert_eq!(plan.rate.max_running, Some(200));
    let last = &plan.jobs[3];
    assert_eq!(last.body.prompt, "migrate y on mac");
    assert_eq!((last.body.limits.usd, last.body.limits.memory), (Some(3.0), Some(6 << 30)));
    assert_eq!(last.body.results.branch.as_deref(), Some(&*format!("haft/log4j-to-slf4j/{}", last.id)));
    assert_eq!(last.pool, "linux");
    // The same file gives the same jobs, and a stored body parses to the same value.
    assert_eq!(parse("jobs.yaml", text).unwrap(), plan);
    let stored = serde_json::to_value(&last.body).unwrap();
    assert_eq!(serde_json::from_value::<JobBody>(stored).unwrap(), last.body);
}

#[test]
fn invalid_file_is_rejected_with_all_locations() {
    for (name, text, want) in [
        (
            "a.yaml",
            "jobs:\n  - {repo: a, promt: b}\n",
            "row 2, column 15: `promt` is not known here; did you mean `prompt`?",
        ),
        ("a.yaml", "job: []\n", "row 1, column 1: `job` is not known here; did you mean `jobs`?"),
        ("a.yaml", "version: 2\njobs: [{repo: a}]\n", "row 1, column 10: version 2"),
        (
            "a.yaml",
            "defaults: {limits: {time: 5x}}\njobs: [{repo: a}]\n",
            "row 1, column 27: `5x` is no time",
        ),
        ("a.yaml", "jobs: [{repo: a, limits: {dollars: 5}}]\n", "unknown field `dollars`"),
        ("a.yaml", "jobs: [{repo: a, prompt: 'x {nope}'}]\n", "row 1, column 26: nothing fills {nope}"),
        ("a.yaml", "jobs: [{repo: a, workspace: {git: x, dir: y}}]\n", "a workspace is one of"),
        ("a.yaml", "jobs: [{repo: a, class: soon}]\n", "row 1, column 25: `soon` is no class"),
        ("a.yaml", "rollout: [200%]\njobs: [{repo: a}]\n", "row 1, column 11: `200%` is no part"),
        ("a.yaml", "jobs: [{repo: a}\n", "a.yaml: row "),
        ("a.json", "{\"jobs\": [}", "row 1, column 11"),
        ("a.csv", "repo,x\na,1\nb\n", "row 3, column 2: there are 1 values for 2 columns"),
        ("a.csv", "repo,repo\na,1\n", "row 1, column 2: the column `repo` is there twice"),
        ("a.csv", "target\na\n", "row 2, column 1: nothing fills {repo}"),
        ("a.csv", "repo\n", "there is no job in it"),
        ("a.jsonl", "{\"repo\": \"a\"}\n{\"repo\":\n", "row 2, column"),
        ("a.txt", "x", "a job file ends in"),
        ("a.yaml", "jobs:\n\t- {repo: a}\n", "a.yaml: row "),
        ("a.yaml", "jobs:\n  - {repo: a, repo: b}\n", "row 2, column 15: `repo` is there twice"),
        ("a.yaml", "jobs: [{repo: a, needs: *nobody}]\n", "a.yaml: row 1"),
        ("a.yaml", "jobs: [{repo: a, pool: 'my pool'}]\n", "row 1, column 24:"),
        ("a.yaml", "jobs: [{repo: a, workspace: {tar: /no/such.tar}}]\n", "/no/such.tar is not there"),
        ("a.yaml", "jobs: [{repo: a, on_question: maybe}]\n", "row 1, column 31:"),
        (
            "a.yaml",
            "jobs: [{name: a, repo: a, needs: b}]\n",
            "row 1, column 34: no job of this file is called `b`",
        ),
        ("a.csv", "repo,x\na,\"1\nb,2\n", "row 2, column 2: a quote begins here and does not end"),
        ("a.csv", "repo,x\r\na,1\r\nb,2,3\r\n", "row 3, column 3: there are 3 values for 2 columns"),
        (
            "a.csv",
            &format!("repo,x\na,{}\n", "y".repeat(9_000)),
            "row 2, column 1: the values of this row have 90",
        ),
        ("a.jsonl", "{\"repo\": \"a\"}\n{\"repo\": \"b\"", "row 2, column"),
        ("a.jsonl", "{\"repo\": \"a\"}\n[1]\n", "row 2, column 1: a line must be an object"),
    ] {
        let refused = parse(name, text).unwrap_err().to_string();
        assert!(refused.contains(want), "{text}\n{refused}");
        assert!(refused.ends_with("nothing was queued"), "{refused}");
    }
}

/// Byte order marks, line endings and similar oddities of spreadsheets and editors are accepted.
#[test]
fn unusual_file_encodings_are_accepted() {
    for (name, text) in [
        ("a.csv", "\u{feff}repo,note\r\na,\"one, two\"\r\nb,\"say \"\"hi\"\"\"\r\n"),
        (
            "a.yaml",
            "defaults: {env: &e {X: '1'}}\njobs:\n  - {repo: a, note: 'one, two', env: *e}\n  - {repo: b, note: 'say \"hi\"'}\n",
        ),
        (
            "a.jsonl",
            "{\"repo\": \"a\", \"note\": \"one, two\"}\r\n\r\n{\"repo\": \"b\", \"note\": \"say \\\"hi\\\"\"}",
        ),
    ] {
        let plan = parse(name, text).unwrap_or_else(|err| panic!("{name}: {err}"));
        let notes: Vec<&str> = plan.jobs.iter().map(|it| it.labels["note"].as_str()).collect();
        assert_eq!(notes, ["one, two", "say \"hi\""], "{name}");
        assert_eq!(plan.jobs[0].labels["repo"], "a", "{name}");
    }
}

/// Jobs are sorted after their dependencies, whatever the order of the file.
#[test]
fn jobs_are_sorted_after_dependencies() {
    let text = "matrix: {os: [linux, mac]}\njobs:\n  - {repo: r, name: ship, needs: {cpu: 2, mem: 1G, jobs: [test]}}\n  - {repo: r, name: test, needs: build}\n  \
                - {repo: r, name: build}\n";
    let plan = parse("a.yaml", text).unwrap();
    let names: Vec<&str> = plan.jobs.iter().map(|it| it.labels["name"].as_str()).collect();
    assert_eq!(names, ["build", "build", "test", "test", "ship", "ship"]);
    assert_eq!((plan.jobs[4].needs.machine.cpu, plan.jobs[4].needs.machine.mem), (2, 1 << 30));
    // All jobs with the name, including all combinations of a matrix.
    assert_eq!(plan.jobs[4].needs.runs.len(), 2);
    for (at, job) in plan.jobs.iter().enumerate() {
        for run in &job.needs.runs {
            assert!(plan.jobs[..at].iter().any(|it| it.id == run.as_str()));
        }
    }
}

#[test]
fn duplicate_job_key_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("repos.csv"), "repo\na\nb\na\n").unwrap();
    let path = dir.path().join("jobs.yaml");
    let refused = JobPlan::parse(
        &path,
        "batch: b\ndefaults: {prompt: x}\njobs: {csv: repos.csv, key: repo}\n",
        &PlanDefaults::default(),
    );
    assert!(refused.unwrap_err().to_string().contains("`repo` is `a` in row 2 and in row 4"));
    std::fs::write(dir.path().join("repos.csv"), "repo\na\nb\n").unwrap();
    let plan = JobPlan::parse(
        &path,
        "batch: b\ndefaults: {prompt: x}\njobs: {csv: repos.csv, key: repo}\n",
        &PlanDefaults::default(),
    );
    let keys: Vec<_> = plan.unwrap().jobs.into_iter().map(|it| it.dedup).collect();
    assert_eq!(keys, ["b/a", "b/b"]);
}

proptest! {
    #[test]
    fn any_job_file_is_parsed_without_panic(text in "[a-z{}\\[\\]:,&*\"'|>%\n -]{0,120}", kind in 0..4_usize) {
        let name = ["a.yaml", "a.json", "a.csv", "a.jsonl"][kind];
        parse(name, &text).ok();
    }

    #[test]
    fn every_table_row_is_one_job(rows in prop::collection::vec("[ -~]{1,12}", 1..20)) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["repo"]).unwrap();
        for row in &rows {
            writer.write_record([row.as_str()]).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let plan = parse("a.csv", &text).unwrap();
        prop_assert_eq!(plan.jobs.len(), rows.len());
        let ids: std::collections::HashSet<_> = plan.jobs.iter().map(|it| &it.id).collect();
        prop_assert_eq!(ids.len(), rows.len());
        for (job, row) in plan.jobs.iter().zip(&rows) {
            prop_assert_eq!(&job.labels["repo"], row.trim());
        }
    }
}
