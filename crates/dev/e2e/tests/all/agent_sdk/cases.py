"""All cases of the Python Agent SDK."""

import asyncio

import agents  # noqa: F401
import basics  # noqa: F401
import decisions  # noqa: F401
import examples  # noqa: F401
import files_and_tasks  # noqa: F401
import harness
import more_tools  # noqa: F401
import permissions  # noqa: F401
import seed  # noqa: F401
import sessions  # noqa: F401

asyncio.run(harness.main())
