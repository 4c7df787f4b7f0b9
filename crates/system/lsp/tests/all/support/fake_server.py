"""A language server that does what its words say: well, badly, or not at all.

Knows lines of text only: a name is defined where `def NAME` stands, problems are
lines with ERR, WARN or HINT. Words:
  --die-on METHOD   ends with code 3 when asked that
  --hang-on METHOD  never answers that
  --deaf            reads nothing after the start
  --garbage         answers hover with text that is no message
  --huge            answers hover with a message that is too large
  --cut             answers hover with half a message, then ends
  --lie METHOD JSON answers that with this
  --flood METHOD    says a great many things nobody asked for before it answers that
  --others METHOD   answers that for others, wrongly, and twice
  --no-json METHOD  answers that with a message that is no JSON
  --parts METHOD    answers that with millions of parts
  --lengths METHOD  answers that with a length that is too short
  --encoding NAME   counts columns so
  --index SECONDS   reads the project for so long; answers are empty until then
  --index-gate FILE goes on reading the project while there is no such file
  --asks            answers nothing before its own question is answered
  --delay SECONDS   says what is wrong with a text after so long
  --gate FILE       says nothing about a text while there is no such file
  --stale           says what was wrong with the text before, first
  --no-version      names no version
  --pull            waits to be asked what is wrong
  --pull-all        can be asked what is wrong in all files below its root
  --memory MB       takes so much memory
  --stubborn        ends neither at the end of its input nor at a signal
  --log FILE        writes down what it hears
"""
import json, os, signal, sys, threading, time

args = sys.argv[1:]
def flag(name): return name in args
def word(name, default=None): return args[args.index(name) + 1] if name in args else default
lie = (args[args.index('--lie') + 1], json.loads(args[args.index('--lie') + 2])) if '--lie' in args else (None, None)
out, lock, order = sys.stdout.buffer, threading.Lock(), threading.Lock()
texts, versions, backlog = {}, {}, []
ready = threading.Event()
answered = threading.Event()
encoding = word('--encoding', 'utf-16')
root = None
log = open(word('--log'), 'a') if '--log' in args else None

def send(message):
    body = json.dumps(message, ensure_ascii=False).encode()
    with lock:
        out.write(b'Content-Length: %d\r\n\r\n' % len(body) + body)
        out.flush()

def column(line, chars):
    head = line[:chars]
    return {'utf-8': len(head.encode()), 'utf-16': len(head.encode('utf-16-le')) // 2, 'utf-32': chars}[encoding]

def chars(line, col):
    for n in range(len(line) + 1):
        if column(line, n) >= col: return n
    return len(line)

def name_at(uri, position):
    line = (texts.get(uri, '').split('\n') + [''] * 9999)[position['line']]
    n = chars(line, position['character'])
    start = n
    while start > 0 and (line[start - 1].isalnum() or line[start - 1] == '_'): start -= 1
    end = n
    while end < len(line) and (line[end].isalnum() or line[end] == '_'): end += 1
    return line[start:end]

def places(name, only_definition):
    found = []
    for uri, text in sorted(texts.items()):
        for row, line in enumerate(text.split('\n')):
            at = 0
            while True:
                at = line.find(name, at)
                if at < 0: break
                before = line[at - 1] if at else ' '
                after = line[at + len(name)] if at + len(name) < len(line) else ' '
                if not (before.isalnum() or before == '_' or after.isalnum() or after == '_'):
                    if not only_definition or line[:at].rstrip().endswith('def'):
                        found.append({'uri': uri, 'range': {
                            'start': {'line': row, 'character': column(line, at)},
                            'end': {'line': row, 'character': column(line, at + len(name))}}})
                at += len(name)
    return found

def problems(text):
    found = []
    for row, line in enumerate(text.split('\n')):
        for word_, severity in (('ERR', 1), ('WARN', 2), ('HINT', 4)):
            if word_ in line:
                at = line.index(word_)
                found.append({'range': {'start': {'line': row, 'character': column(line, at)},
                                        'end': {'line': row, 'character': column(line, len(line))}},
                              'severity': severity, 'message': line[at:], 'code': word_.lower(), 'source': 'fake'})
    return found

def publish(uri, version, items):
    params = {'uri': uri, 'diagnostics': items}
    if not flag('--no-version'): params['version'] = version
    send({'jsonrpc': '2.0', 'method': 'textDocument/publishDiagnostics', 'params': params})

def look(uri, before):
    if flag('--pull'): return
    version, text = versions[uri], texts[uri]
    def later():
        if flag('--stale') and before is not None: publish(uri, version - 1, problems(before))
        time.sleep(float(word('--delay', '0')))
        with order:
            while '--gate' in args and not os.path.exists(word('--gate')): time.sleep(0.01)
            publish(uri, version, problems(text))
    threading.Thread(target=later, daemon=True).start()

def everything():
    items = []
    for dir, _, files in os.walk(root):
        for name in sorted(files):
            if name.endswith('.x'):
                path = os.path.join(dir, name)
                items.append({'uri': 'file://' + path, 'version': None, 'kind': 'full', 'items': problems(open(path).read())})
    return items

def result(method, p):
    if '--index' in args and not ready.is_set() and method != 'textDocument/documentSymbol': return []
    uri = p.get('textDocument', {}).get('uri')
    if method == 'textDocument/hover':
        name = name_at(uri, p['position'])
        return {'contents': {'kind': 'markdown', 'value': '`%s` is a name' % name}} if name else None
    if method in ('textDocument/definition', 'textDocument/implementation', 'textDocument/typeDefinition'):
        return places(name_at(uri, p['position']), True)
    if method == 'textDocument/references': return places(name_at(uri, p['position']), False)
    if method == 'textDocument/documentSymbol':
        rows = enumerate(texts[uri].split('\n'))
        return [{'name': l.split('def ')[1].split('(')[0], 'kind': 12,
                 'range': {'start': {'line': r, 'character': 0}, 'end': {'line': r + 1, 'character': 0}},
                 'selectionRange': {'start': {'line': r, 'character': 4}, 'end': {'line': r, 'character': 5}}}
                for r, l in rows if 'def ' in l]
    if method == 'workspace/symbol':
        return [{'name': p['query'], 'kind': 12, 'location': it} for it in places(p['query'], True)]
    if method == 'textDocument/rename':
        found = {}
        for it in places(name_at(uri, p['position']), False):
            found.setdefault(it['uri'], []).append({'range': it['range'], 'newText': p['newName']})
        return {'changes': found}
    if method == 'textDocument/prepareCallHierarchy':
        name = name_at(uri, p['position'])
        return [{'name': name, 'kind': 12, 'uri': it['uri'], 'range': it['range'], 'selectionRange': it['range']}
                for it in places(name, True)]
    if method == 'callHierarchy/incomingCalls':
        item = p['item']
        return [{'from': dict(item, name='caller'), 'fromRanges': [it['range']]}
                for it in places(item['name'], False) if it['range'] != item['range']]
    if method == 'textDocument/codeAction':
        return [{'title': 'Remove the mark', 'kind': 'quickfix', 'isPreferred': True,
                 'edit': {'changes': {uri: [{'range': d['range'], 'newText': 'fine'}]}}}
                for d in p['context']['diagnostics']] + [{'title': 'Run it', 'command': 'x'}]
    if method == 'workspace/diagnostic': return {'items': everything()}
    if method == 'textDocument/diagnostic':
        time.sleep(float(word('--delay', '0')))
        return {'kind': 'full', 'items': problems(texts[uri])}
    return None

def hear(m):
    method, p = m.get('method'), m.get('params') or {}
    if log:
        log.write((method or 'answer') + '\n'); log.flush()
    if method is None:
        answered.set()
        while backlog: hear(backlog.pop(0))
        return
    if flag('--asks') and not answered.is_set() and method not in ('initialize', 'initialized'):
        backlog.append(m)
        return
    if word('--die-on') == method:
        print('boom: no ' + method, file=sys.stderr, flush=True)
        os._exit(3)
    if method in ('textDocument/didOpen', 'textDocument/didChange'):
        uri = p['textDocument']['uri']
        before = texts.get(uri)
        texts[uri] = p['textDocument']['text'] if method.endswith('Open') else p['contentChanges'][0]['text']
        versions[uri] = p['textDocument']['version']
        look(uri, before)
    if method == 'textDocument/didClose': texts.pop(p['textDocument']['uri'], None)
    if method == 'exit' and not flag('--stubborn'): os._exit(0)
    if method == 'initialized':
        if flag('--asks'):
            send({'jsonrpc': '2.0', 'id': 'q1', 'method': 'workspace/configuration', 'params': {'items': [{'section': 'x'}]}})
        if '--index' in args:
            send({'jsonrpc': '2.0', 'id': 'q2', 'method': 'window/workDoneProgress/create', 'params': {'token': 't'}})
            send({'jsonrpc': '2.0', 'method': '$/progress', 'params': {'token': 't', 'value': {'kind': 'begin', 'title': 'Indexing', 'percentage': 40}}})
            def done():
                time.sleep(float(word('--index')))
                while '--index-gate' in args and not os.path.exists(word('--index-gate')): time.sleep(0.01)
                ready.set()
                send({'jsonrpc': '2.0', 'method': '$/progress', 'params': {'token': 't', 'value': {'kind': 'end'}}})
            threading.Thread(target=done, daemon=True).start()
    if 'id' not in m: return
    if word('--hang-on') == method: return
    if flag('--garbage') and method == 'textDocument/hover':
        out.write(b'I am not a message\n\n'); out.flush()
        return
    if flag('--huge') and method == 'textDocument/hover':
        out.write(b'Content-Length: 999999999999\r\n\r\n'); out.flush()
        return
    if flag('--cut') and method == 'textDocument/hover':
        out.write(b'Content-Length: 900\r\n\r\n{"jsonrpc"'); out.flush()
        os._exit(0)
    if word('--flood') == method:
        for n in range(300):
            uri = 'file:///no/such/%d.x' % n
            item = {'range': {'start': {'line': n, 'character': 0}, 'end': {'line': n, 'character': 1}}, 'message': 'm' * 50}
            send({'jsonrpc': '2.0', 'method': 'textDocument/publishDiagnostics', 'params': {'uri': uri, 'version': 2147483647, 'diagnostics': [item]}})
            send({'jsonrpc': '2.0', 'method': '$/progress', 'params': {'token': 't%d' % n, 'value': {'kind': 'begin', 'title': 'w'}}})
            send({'jsonrpc': '2.0', 'method': '$/progress', 'params': {'token': 't%d' % n, 'value': {'kind': 'end'}}})
            send({'jsonrpc': '2.0', 'method': 'window/logMessage', 'params': {'type': 3, 'message': 'm' * 200}})
            send({'jsonrpc': '2.0', 'id': 'flood%d' % n, 'method': 'workspace/configuration', 'params': {'items': [{'section': 'x'}]}})
    if word('--others') == method:
        for other in (0, -1, 10 ** 30, None, True, '', 'x', [1], {'a': 1}, 1.5):
            send({'jsonrpc': '2.0', 'id': other, 'result': 'not yours'})
            send({'jsonrpc': '2.0', 'id': other, 'error': 7})
        send([{'jsonrpc': '2.0', 'id': m['id'], 'result': 'in a list'}])
        send('text')
        send({})
        send({'jsonrpc': '2.0', 'id': str(m['id']), 'result': 'yours'})
        return send({'jsonrpc': '2.0', 'id': m['id'], 'result': 'twice'})
    if word('--no-json') == method:
        out.write(b'Content-Length: 9\r\n\r\n{"id": 1,'); out.flush()
        return
    if word('--parts') == method:
        body = b'{"jsonrpc":"2.0","id":%d,"result":[%s0]}' % (m['id'], b'0,' * 3000000)
        out.write(b'Content-Length: %d\r\n\r\n' % len(body) + body); out.flush()
        return
    if word('--lengths') == method:
        out.write(b'Content-Length: 5\r\n\r\n' + json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': 1}).encode()); out.flush()
        return
    if lie[0] == method:
        return send({'jsonrpc': '2.0', 'id': m['id'], 'result': lie[1]})
    if method == 'initialize':
        global root
        root = p['rootPath']
        caps = {'positionEncoding': encoding, 'textDocumentSync': 1, 'hoverProvider': True, 'definitionProvider': True,
                'referencesProvider': True, 'documentSymbolProvider': True, 'workspaceSymbolProvider': True,
                'renameProvider': True, 'callHierarchyProvider': True, 'codeActionProvider': True}
        if flag('--pull-all'): caps['diagnosticProvider'] = {'interFileDependencies': True, 'workspaceDiagnostics': True}
        if flag('--pull'): caps['diagnosticProvider'] = {'interFileDependencies': False, 'workspaceDiagnostics': False}
        send({'jsonrpc': '2.0', 'id': m['id'], 'result': {'capabilities': caps}})
        if flag('--deaf'): time.sleep(9999)
        return
    try:
        send({'jsonrpc': '2.0', 'id': m['id'], 'result': result(method, p)})
    except Exception as err:
        send({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -32603, 'message': repr(err)}})

if '--memory' in args:
    weight = b'x' * (int(word('--memory')) << 20)
if flag('--stubborn'):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            if flag('--stubborn'): time.sleep(9999)
            os._exit(0)
        if line in (b'\r\n', b'\n'): break
        if line.lower().startswith(b'content-length:'): length = int(line.split(b':')[1])
    hear(json.loads(sys.stdin.buffer.read(length)))
