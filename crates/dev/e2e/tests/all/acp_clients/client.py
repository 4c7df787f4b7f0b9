"""A whole turn and a load, by the Python SDK, which checks what it reads. Prints one report."""
import asyncio
import json
import os

import acp


class Editor(acp.Client):
    def __init__(self):
        self.asked, self.words, self.diffs = 0, "", []

    async def request_permission(self, options, session_id, tool_call, **kwargs):
        self.asked += 1
        for each in tool_call.content or []:
            if each.type == "diff":
                self.diffs.append([each.old_text, each.new_text])
        outcome = {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}
        return acp.RequestPermissionResponse.model_validate(outcome)

    async def session_update(self, session_id, update, **kwargs):
        if update.session_update == "agent_message_chunk":
            self.words += update.content.text


async def main():
    editor = Editor()
    async with acp.spawn_agent_process(editor, os.environ["HAFT"], "acp", env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        answer = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        await asyncio.sleep(0)
        words, editor.words = editor.words, ""
        await agent.load_session(cwd=os.getcwd(), session_id=session.session_id, mcp_servers=[])
        report = {
            "stopReason": answer.stop_reason, "words": words, "asked": editor.asked,
            "diffs": editor.diffs, "replayed": editor.words,
        }
        print(json.dumps(report))


asyncio.run(main())
