"""Judges lines of an agent by the protocol's schema.

Standard input has one object per line: the line that was written, and the method it answers if it
is an answer. Each part is judged by the one definition that fits it, so that no catch-all variant
of the schema lets anything through.
"""
import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1]))
defs = schema["$defs"]
validators = {}

SAID = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "$/cancel_request": "CancelRequestNotification",
}
ANSWERED = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/fork": "ForkSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
UPDATES = {
    each["properties"]["sessionUpdate"]["const"]
    for each in defs["SessionUpdate"]["oneOf" if "oneOf" in defs["SessionUpdate"] else "anyOf"]
    if "const" in each.get("properties", {}).get("sessionUpdate", {})
}


def judge(name, value):
    if name not in validators:
        validators[name] = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": defs})
    problems = sorted(validators[name].iter_errors(value), key=lambda it: it.path)
    return [f"{name}: {it.json_path}: {it.message}"[:1500] for it in problems]


count = 0
failed = False
for entry in map(json.loads, sys.stdin):
    line, count = entry["line"], count + 1
    problems = []
    if len(json.dumps(line)) > 1_100_000:
        problems.append("the line is too long")
    if "method" in line:
        problems += judge(SAID[line["method"]], line["params"])
        update = line["params"].get("update")
        if update is not None and update["sessionUpdate"] not in UPDATES:
            problems.append(f"no such update: {update['sessionUpdate']}")
    elif "error" in line:
        problems += judge("Error", line["error"])
    elif entry["answers"] is not None:
        problems += judge(ANSWERED[entry["answers"]], line["result"])
    else:
        problems.append("an answer to nothing")
    if problems:
        failed = True
        print(json.dumps(line)[:600], *problems, sep="\n  ")
print(f"{count} lines fit" if not failed else "some lines do not fit")
