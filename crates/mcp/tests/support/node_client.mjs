// The official TypeScript client (version 1 or 2) against a server of ours.
//
// node_client.mjs v1|v2 stdio PROGRAM | node_client.mjs v1|v2 http URL
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.HAFT_MCP_PEERS + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const [, , version, transport, target] = process.argv;

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
await client.connect(transport === 'stdio' ? new Stdio({ command: target }) : new Http(new URL(target)));
const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
const text = (result) => [Boolean(result.isError), result.content[0].text];
const call = async (name, args) => text(await client.callTool({ name, arguments: args }));
const echo = await call('echo', { text: 'hi' });
const write = await call('write', { text: 'hi' });
const count = await call('count', { count: 3 });
console.log(JSON.stringify({ tools, echo, write, count }));
await client.close();
