//! Settings files that are broken, hostile, or changed concurrently.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use common::{World, lines, names};
use haft_config::{SettingsScope, UpdateError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const USER: &str = "home/.haft/settings.json";

#[test]
fn broken_file_is_reported_and_last_valid_version_used() {
    let world = World::default();
    let path = world.write(USER, r#"{"model": "good", "permissions": {"deny": ["Bash(rm *)"]}}"#);
    assert_eq!(world.load().problems, []);
    let broken = "{\n  \"model\": \"new\",\n  \"permissions\": {\"deny\": []},,\n}";
    world.write(USER, broken);
    // A new process finds the last valid version too.
    let loaded = world.load();
    let want = format!(
        "{}:3:31: key must be a string; the last good version of this file counts until it is repaired",
        path.display()
    );
    assert_eq!(lines(&loaded.problems), [want]);
    assert_eq!(loaded.settings.model.as_ref().unwrap().value, "good");
    assert_eq!(loaded.settings.permissions.deny.len(), 1);
    // The broken file is not overwritten.
    let failed = world.store().update(SettingsScope::User, |it| it.insert("theme".into(), json!("dark")));
    assert!(
        matches!(&failed, Err(UpdateError::Broken(notice)) if notice.position == Some((3, 31))),
        "{failed:?}"
    );
    assert_eq!(world.read(USER), broken);
    assert_eq!(names(&world.path("home/.haft")), ["cache", "settings.json"]);
    // A deleted file has no last valid version.
    fs::remove_file(&path).unwrap();
    assert!(world.load().settings.model.is_none());
    world.write(USER, broken);
    let loaded = world.load();
    assert!(lines(&loaded.problems)[0].ends_with("nothing in this file counts until it is repaired"));
}

#[test]
fn every_breakage_keeps_last_valid_version() {
    for text in [
        "",
        " \n",
        "null",
        "[]",
        "{\"model\": \"x\"",
        "\u{feff}",
        "{\"a\": \u{1}}",
        "{}}",
        "{\"a\": 1e999}",
        "// x\n{}",
    ] {
        let world = World::default();
        world.write(USER, r#"{"model": "good"}"#);
        let store = world.store();
        world.write(USER, text);
        let loaded = store.reload_if_changed().expect("it has changed");
        assert_eq!(loaded.problems.len(), 1, "{text:?}");
        assert_eq!(loaded.settings.model.as_ref().unwrap().value, "good", "{text:?}");
        world.write(USER, r#"{"model": "better"}"#);
        let loaded = store.reload_if_changed().expect("it has changed again");
        assert_eq!(loaded.problems.len(), 0, "{text:?}");
        assert_eq!(loaded.settings.model.as_ref().unwrap().value, "better", "{text:?}");
    }
}

#[test]
fn oversized_and_special_files_are_rejected() {
    let world = World::default();
    let padding = " ".repeat(2 << 20);
    world.write(USER, &format!("{{\"model\": \"x\"}}{padding}"));
    let loaded = world.load();
    assert!(lines(&loaded.problems)[0].contains("more than 2 MiB"), "{:?}", loaded.problems);
    assert!(loaded.settings.model.is_none());
    fs::remove_file(world.path(USER)).unwrap();
    fs::create_dir(world.path(USER)).unwrap();
    // Opening a pipe in a project must not block.
    let made = std::process::Command::new("mkfifo").arg(world.path("project/.claude/settings.json")).status();
    assert!(made.unwrap().success());
    symlink("loop", world.path("project/.haft/loop")).unwrap();
    symlink("loop", world.path("project/.haft/settings.json")).unwrap();
    let problems = lines(&world.load().problems);
    assert_eq!(problems.iter().filter(|it| it.contains("not a regular file")).count(), 2, "{problems:?}");
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn file_changes_reload_and_no_change_does_not() {
    let world = World::default();
    let store = world.store();
    assert!(store.reload_if_changed().is_none());
    world.write(USER, r#"{"model": "one"}"#);
    assert_eq!(store.reload_if_changed().unwrap().settings.model.as_ref().unwrap().value, "one");
    assert!(store.reload_if_changed().is_none());
    // Same size, timestamp and inode.
    let before = fs::metadata(world.path(USER)).unwrap().modified().unwrap();
    world.write(USER, r#"{"model": "two"}"#);
    fs::File::options().write(true).open(world.path(USER)).unwrap().set_modified(before).unwrap();
    assert_eq!(store.reload_if_changed().unwrap().settings.model.as_ref().unwrap().value, "two");
    // A new file, a removed file, a retargeted symlink, a new managed file.
    world.write("project/.claude/settings.json", r#"{"permissions": {"deny": ["X"]}}"#);
    assert_eq!(store.reload_if_changed().unwrap().settings.permissions.deny.len(), 1);
    fs::remove_file(world.path("project/.claude/settings.json")).unwrap();
    assert_eq!(store.reload_if_changed().unwrap().settings.permissions.deny.len(), 0);
    for name in ["a", "b"] {
        world.write(&format!("{name}.json"), &format!(r#"{{"model": "{name}"}}"#));
        let _ = fs::remove_file(world.path(USER));
        symlink(world.path(&format!("{name}.json")), world.path(USER)).unwrap();
        assert_eq!(store.reload_if_changed().unwrap().settings.model.as_ref().unwrap().value, name);
    }
    world.write("b.json", r#"{"model": "behind the link"}"#);
    assert_eq!(store.reload_if_changed().unwrap().settings.model.as_ref().unwrap().value, "behind the link");
    world.write("etc/managed-settings.d/x.json", r#"{"model": "managed"}"#);
    assert_eq!(store.reload_if_changed().unwrap().settings.model.as_ref().unwrap().value, "managed");
    assert!(store.reload_if_changed().is_none());
}

#[test]
fn update_keeps_other_bytes_unchanged() {
    let world = World::default();
    let text = "\u{feff}{\r\n    \"zoo\": 1e-05,\r\n    \"permissions\": {\r\n        \"allow\": [\"Read\"],\r\n        \"x\": 12345678901234567890123\r\n    }\r\n}\r\n";
    let path = world.write(USER, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let store = world.store();
    let pushed = store.update(SettingsScope::User, |it| {
        let allow = it["permissions"]["allow"].as_array_mut().unwrap();
        allow.push(json!("Bash(ls *)"));
        allow.len()
    });
    assert_eq!(pushed.unwrap(), 2);
    assert_eq!(world.read(USER), text.replace("[\"Read\"]", "[\"Read\", \"Bash(ls *)\"]"));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_eq!(store.current().settings.permissions.allow.len(), 2, "the change counts at once");
    // An update that changes nothing writes nothing.
    let before = fs::metadata(&path).unwrap().ino();
    store.update(SettingsScope::User, |_| ()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
}

#[test]
fn settings_and_lists_can_be_set_by_dotted_name() {
    let world = World::default();
    let store = world.store();
    store.set(SettingsScope::User, "permissions.defaultMode", &json!("plan")).unwrap();
    store.add_to_list(SettingsScope::User, "permissions.allow", &["Read".into(), "Grep".into()]).unwrap();
    store.add_to_list(SettingsScope::User, "permissions.allow", &["Grep".into(), "Glob".into()]).unwrap();
    store.remove_from_list(SettingsScope::User, "permissions.allow", &["Read".into()]).unwrap();
    store.add_to_list(SettingsScope::User, "permissions.deny", &["Write".into()]).unwrap();
    store.set(SettingsScope::User, "model", &json!("m")).unwrap();
    store.set(SettingsScope::User, "permissions.defaultMode", &Value::Null).unwrap();
    let text: Value = serde_json::from_str(&world.read(USER)).unwrap();
    assert_eq!(text, json!({"permissions": {"allow": ["Grep", "Glob"], "deny": ["Write"]}, "model": "m"}));
    for (name, value, words) in [
        ("modle", json!("x"), "there is no setting"),
        ("env.X.Y", json!("x"), "there is no setting"),
        ("model", json!(7), "model must be text"),
        ("permissions.defaultMode", json!("yolo"), "must be one of"),
    ] {
        let failed = store.set(SettingsScope::User, name, &value).unwrap_err().to_string();
        assert!(failed.contains(words), "{failed}");
    }
}

#[test]
fn update_creates_missing_files() {
    let world = World::default();
    fs::remove_dir_all(world.path("home/.haft")).unwrap();
    fs::remove_dir_all(world.path("project/.haft")).unwrap();
    let store = world.store();
    for (scope, file, mode) in [
        (SettingsScope::User, USER, 0o600),
        (SettingsScope::Project, "project/.haft/settings.json", 0o644),
        (SettingsScope::Local, "project/.haft/settings.local.json", 0o600),
    ] {
        store.update(scope, |it| it.insert("model".into(), json!("m"))).unwrap();
        assert_eq!(world.read(file), "{\n  \"model\": \"m\"\n}\n");
        assert_eq!(fs::metadata(world.path(file)).unwrap().mode() & 0o777, mode, "{file}");
    }
    assert_eq!(fs::metadata(world.path("home/.haft")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(names(&world.path("project/.claude")), Vec::<String>::new());
    assert_eq!(names(&world.path("home/.claude")), Vec::<String>::new());
}

#[test]
fn update_follows_links_only_inside_project() {
    let world = World::default();
    let real = world.write("dotfiles/haft.json", "{}");
    symlink("../../dotfiles/haft.json", world.path(USER)).unwrap();
    let store = world.store();
    store.update(SettingsScope::User, |it| it.insert("model".into(), json!("m"))).unwrap();
    assert!(fs::symlink_metadata(world.path(USER)).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("\"m\""));
    assert_eq!(names(&world.path("dotfiles")), ["haft.json"]);
    // A repository whose settings file is a symlink to the user's.
    let before = fs::read_to_string(&real).unwrap();
    symlink(&real, world.path("project/.haft/settings.local.json")).unwrap();
    let failed = store.update(SettingsScope::Local, |it| it.insert("model".into(), json!("evil")));
    assert!(matches!(failed, Err(UpdateError::LeadsOutside(_))), "{failed:?}");
    fs::remove_dir_all(world.path("project/.haft")).unwrap();
    symlink(world.path("dotfiles"), world.path("project/.haft")).unwrap();
    let failed = store.update(SettingsScope::Local, |it| it.insert("model".into(), json!("evil")));
    assert!(matches!(failed, Err(UpdateError::LeadsOutside(_))), "{failed:?}");
    assert_eq!(fs::read_to_string(&real).unwrap(), before);
    assert_eq!(names(&world.path("dotfiles")), ["haft.json"]);
}

#[test]
fn update_beyond_size_limit_is_rejected() {
    let world = World::default();
    world.write(USER, "{}");
    let failed =
        world.store().update(SettingsScope::User, |it| it.insert("model".into(), json!("x".repeat(3 << 20))));
    assert!(matches!(failed, Err(UpdateError::TooLarge(_))));
    assert_eq!(world.read(USER), "{}");
}

#[test]
fn missing_home_makes_updates_fail() {
    let world = World::default();
    let mut places = world.places();
    (places.user, places.state, places.claude_json) = (Vec::new(), None, None);
    let store = haft_config::SettingsStore::open(places, world.options.clone());
    assert!(matches!(store.update(SettingsScope::User, |_| ()), Err(UpdateError::NoPlace)));
    world.write("project/.haft/settings.json", r#"{"env": {"A": "b"}, "permissions": {"deny": ["X"]}}"#);
    let loaded = store.reload_if_changed().unwrap();
    assert_eq!(loaded.settings.permissions.deny.len(), 1);
    assert_eq!(loaded.settings.env.len(), 0);
    assert!(store.trust(loaded.pending_trust.as_ref().unwrap()).is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|it| Value::from(f64::from(it) / 4.0)),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,4}", inner), 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Setting one key loses none of the others, whatever the file contains.
    #[test]
    fn update_of_any_file_loses_no_key(
        file in prop::collection::vec(("\\PC{0,4}", any_json()), 0..6),
        key in "\\PC{1,4}",
        value in any_json(),
    ) {
        let world = World::default();
        let text = format!("{:#}", Value::Object(file.into_iter().collect::<Map<_, _>>()));
        world.write(USER, &text);
        world.store().update(SettingsScope::User, |it| it.insert(key.clone(), value.clone())).unwrap();
        let mut want: Map<String, Value> = serde_json::from_str(&text).unwrap();
        want.insert(key, value);
        let got: Map<String, Value> = serde_json::from_str(&world.read(USER)).unwrap();
        prop_assert_eq!(got, want);
    }
}
