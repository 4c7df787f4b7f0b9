// The official TypeScript client (version 1 or 2) against a server of ours.
//
// node_client.mjs v1|v2 stdio PROGRAM ARGS… | node_client.mjs v1|v2 http URL
//
// $HAFT_PEER_CALLS is a JSON list of [tool, arguments]. Prints one JSON object:
// the tools, and whether each call failed and what it said.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.HAFT_MCP_PEERS + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const [, , version, transport, target, ...args] = process.argv;

let Client, Stdio, Http;
if (version === 'v1') {
  ({ Client } = await load('@modelcontextprotocol/sdk/client/index.js'));
  ({ StdioClientTransport: Stdio } = await load('@modelcontextprotocol/sdk/client/stdio.js'));
  ({ StreamableHTTPClientTransport: Http } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js'));
} else {
  const client = await load('@modelcontextprotocol/client');
  const stdio = await load('@modelcontextprotocol/client/stdio').catch(() => client);
  Client = client.Client;
  Stdio = stdio.StdioClientTransport ?? client.StdioClientTransport;
  Http = client.StreamableHTTPClientTransport;
}
const client = new Client({ name: 'peer', version: '1.0.0' });
const pipes = () => new Stdio({ command: target, args, env: process.env });
await client.connect(transport === 'stdio' ? pipes() : new Http(new URL(target)));
const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
const results = [];
for (const [name, input] of JSON.parse(process.env.HAFT_PEER_CALLS)) {
  const result = await client.callTool({ name, arguments: input });
  results.push([Boolean(result.isError), result.content[0].text]);
}
console.log(JSON.stringify({ tools, results }));
await client.close();
