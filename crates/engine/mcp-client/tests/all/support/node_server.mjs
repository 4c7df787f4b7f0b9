// A server made with the official TypeScript SDK, version 1 or 2.
//
// node_server.mjs v1|v2
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.HAFT_MCP_PEERS + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const info = { name: 'peer', version: '1.0.0' };
const options = { capabilities: { tools: {} } };
const tool = {
  name: 'echo',
  description: 'Says the same.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
};
const list = async () => ({ tools: [tool] });
const call = async (request) => ({ content: [{ type: 'text', text: request.params.arguments.text }] });

if (process.argv[2] === 'v1') {
  const { Server } = await load('@modelcontextprotocol/sdk/server/index.js');
  const { StdioServerTransport } = await load('@modelcontextprotocol/sdk/server/stdio.js');
  const types = await load('@modelcontextprotocol/sdk/types.js');
  const server = new Server(info, options);
  server.setRequestHandler(types.ListToolsRequestSchema, list);
  server.setRequestHandler(types.CallToolRequestSchema, call);
  await server.connect(new StdioServerTransport());
} else {
  const { Server } = await load('@modelcontextprotocol/server');
  const { StdioServerTransport } = await load('@modelcontextprotocol/server/stdio');
  const server = new Server(info, options);
  server.setRequestHandler('tools/list', list);
  server.setRequestHandler('tools/call', call);
  await server.connect(new StdioServerTransport());
}
