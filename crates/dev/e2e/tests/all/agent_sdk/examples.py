"""The examples of the SDK's own source package, as they are, with a played model.

They name no executable: `_find_cli` of the SDK is told where it is. Nothing of them is in this
repository; where the source package cannot be had, nothing is run.
"""

import asyncio
import os
import sys

from harness import CLI, both, case, text, tool

EXAMPLES = os.environ.get("HAFT_SDK_EXAMPLES")

RUNNER = """
import runpy, sys
from claude_agent_sdk._internal.transport import subprocess_cli
cli, sys.argv = sys.argv[1], sys.argv[2:]
subprocess_cli.SubprocessCLITransport._find_cli = lambda self: cli
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def always(turn):
    return {**turn, "times": "always"}


async def run(t, name, *args):
    """What an example prints."""
    env = {
        **os.environ,
        "HOME": t.home,
        "ANTHROPIC_BASE_URL": t.url,
        "ANTHROPIC_API_KEY": "key",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    program = os.path.join(EXAMPLES, "examples", name)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, CLI, program, *args,
        cwd=t.ws, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )
    out = (await child.communicate())[0].decode()
    # One ends with the error of a budget that is spent.
    assert child.returncode == 0 or "Budget limit exceeded!" in out, f"{name}: {child.returncode}\n{out}"
    return out


def example(label, turns, name, *args, says=(), files=None):
    """An example is a case when the source package is there."""

    async def check(t):
        out = await run(t, name, *args)
        for words in says:
            assert words in out, f"{words!r} is missing in\n{out}"

    check.__name__ = f"example_{label}"
    if EXAMPLES:
        case(*turns, files=files)(check)


FOUR = [always(text("Four."))]

example("quick_start", [text("Four."), text("A language."), tool("Write", file_path="$WS/hello.txt", content="Hello, World!"), text("Done.")],
        "quick_start.py", says=["Claude: Four.", "Claude: Done.", "Cost: $"])
example("agents", FOUR, "agents.py", says=["Claude: Four.", "Cost: $"])
example("include_partial_messages", FOUR, "include_partial_messages.py", says=["content_block_delta"])
example("plugin", FOUR, "plugin_example.py", says=["demo-plugin", "Plugin successfully configured"])
example("stderr", FOUR, "stderr_callback_example.py", says=["Captured 0 stderr lines"])
example("system_prompt", FOUR, "system_prompt.py", says=["Claude: Four."])
example("tools_option", FOUR, "tools_option.py", says=["Claude: Four."])
example("trio", FOUR, "streaming_mode_trio.py", says=["Claude: Four."])
example("calculator",
        [text("Six tools."), tool("mcp__calc__add", a=15, b=27), text("42"), tool("mcp__calc__divide", a=100, b=7), text("14.3"),
         tool("mcp__calc__sqrt", n=144), text("12"), tool("mcp__calc__power", base=2, exponent=8), text("256"),
         tool("mcp__calc__add", a=12, b=8), tool("mcp__calc__multiply", a=20, b=3), tool("mcp__calc__subtract", a=60, b=10), text("50")],
        "mcp_calculator.py", says=["15 + 27 = 42", "√144 = 12.0", "60 - 10 = 50", "Claude: 50"])
example("permission_callback",
        [tool("Glob", pattern="*"), tool("Write", file_path="$WS/hello.py", content="print('hello')"), tool("Bash", command="python3 hello.py"), text("Done.")],
        "tool_permission_callback.py", says=["Permission Request: Write", "Allowing bash command", "Claude: Done.", "Suggestions: "])
example("hooks_pre", [tool("Bash", command="./foo.sh --help"), text("Blocked."), tool("Bash", command="echo 'Hello from hooks example!'"), text("Said.")],
        "hooks.py", "PreToolUse", says=["Blocked command: ./foo.sh", "Claude: Said."])
# Its hook answers for another event, so the prompt is held back, here as with the SDK's own executable.
example("hooks_prompt", FOUR, "hooks.py", "UserPromptSubmit", says=["Result ended"])
example("hooks_post", [tool("Bash", command="ls /nonexistent_directory"), text("Not there.")], "hooks.py", "PostToolUse", says=["Claude: Not there."])
example("hooks_decision",
        [tool("Write", file_path="$WS/important_config.txt", content="test data"), text("Refused."),
         tool("Write", file_path="$WS/regular_file.txt", content="test data"), text("Written.")],
        "hooks.py", "DecisionFields", says=["Blocked Write to:", "Claude: Refused.", "Claude: Written."])
example("hooks_continue", [tool("Bash", command="echo 'CRITICAL ERROR: system failure'"), text("never")],
        "hooks.py", "ContinueControl", says=["Critical error detected", "Result ended"])
example("settings_none", FOUR, "setting_sources.py", "disable_all", says=["✓ /commit is NOT available"])
example("settings_user", FOUR, "setting_sources.py", "user_only", says=["✓ /commit is NOT available"])
example("filesystem_agents", FOUR, "filesystem_agents.py", says=["SUCCESS: Received full response"])
for label, turns, says in [
    ("basic_streaming", FOUR, ["Claude: Four.", "Result ended"]),
    ("multi_turn_conversation", FOUR, ["Claude: Four."]),
    ("with_interrupt", [{"reply": [{"text": "1, 2"}, {"stall": "forever"}]}, text("A joke.")], ["Claude: 1, 2", "Claude: A joke."]),
    ("manual_message_handling", [text("Python and Rust")], ["Total languages mentioned: 2"]),
    ("with_options", [tool("Write", file_path="$WS/hello.txt", content="hi"), text("Done.")], ["Tools used: Write"]),
    ("bash_command", [tool("Bash", command="echo 'Hello from bash!'"), text("Done.")], ["Hello from bash!", "Tool Use: Bash"]),
    ("control_protocol", [{"reply": [{"text": "1, 2"}, {"stall": "forever"}]}, text("Hello!")], ["✓ Interrupt sent successfully", "Claude: Hello!"]),
    ("error_handling", [tool("Bash", command="sleep 5"), text("never")], ["Response timeout after 3 seconds"]),
]:
    example(label, turns, "streaming_mode.py", label, says=says)
example("budget", [text("Four."), text("Four."), tool("Read", file_path="$WS/README.md"), text("never")], "max_budget_usd.py", says=["Status: success", "Budget limit exceeded!"], files={"README.md": "Hi"})
