"""Names and pages of a network that is all on this machine.

Answers by the row in DIRECTORY/row.json, as the shared table writes rows, and writes
down in DIRECTORY/log what was asked for and who was connected to. Beside addresses a
name may have {"cname": NAME}; its answers are those of that name.
"""
import ipaddress, json, os, socket, socketserver, ssl, struct, subprocess, sys, threading

directory = sys.argv[1]
ports = [80, 443, 22, 25, 587, 2049, 3000, 6379, 8080, 8443, 11211]
lock = threading.Lock()
asked = {}

def row():
    try:
        return json.load(open(os.path.join(directory, 'row.json')))
    except FileNotFoundError:
        return {'id': '', 'dns': {}, 'responses': {}}

def note(**what):
    with lock:
        with open(os.path.join(directory, 'log'), 'a') as log:
            log.write(json.dumps(what) + '\n')

def addresses(now, name, kind):
    """The addresses of a name, of one kind; nothing where nobody answers."""
    answer = now['dns'].get(name)
    if isinstance(answer, dict) and 'cname' in answer:
        return addresses(now, answer['cname'], kind)
    if isinstance(answer, dict) and answer.get('hang'):
        return None
    if isinstance(answer, dict) and 'sequence' in answer:
        with lock:
            key = (now['id'], name, kind)
            number = asked.get(key, 0)
            asked[key] = number + 1
        answer = answer['sequence'][min(number, len(answer['sequence']) - 1)]
    if not isinstance(answer, list):
        return []
    want = 4 if kind == 1 else 6
    return [it for it in map(ipaddress.ip_address, answer) if it.version == want]

class Names(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind = struct.unpack('>H', data[at + 1:at + 3])[0]
        name, now = '.'.join(labels).lower(), row()
        note(asked=name, row=now['id'])
        found = addresses(now, name, kind) if kind in (1, 28) else []
        if found is None:
            return
        is_known = name in now['dns']
        head = data[:2] + (b'\x81\x80' if is_known else b'\x81\x83') + b'\0\1' + struct.pack('>H', len(found)) + b'\0\0\0\0'
        body = data[12:at + 5]
        for it in found:
            packed = it.packed
            body += b'\xc0\x0c' + struct.pack('>HHIH', kind, 1, 0, len(packed)) + packed
        sock.sendto(head + body, self.client_address)

def plain(address):
    address = ipaddress.ip_address(address)
    return str(getattr(address, 'ipv4_mapped', None) or address)

def serve(stream, scheme):
    head = b''
    while b'\r\n\r\n' not in head:
        more = stream.recv(4096)
        if not more:
            return
        head += more
    lines = head.decode('latin-1').split('\r\n')
    path = lines[0].split(' ')[1]
    host = next((it.split(':', 1)[1].strip() for it in lines if it.lower().startswith('host:')), '')
    answer = row()['responses'].get('%s://%s%s' % (scheme, host, path), {'status': 200})
    text = b'the page'
    said = 'HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n' % (answer['status'], len(text))
    if answer.get('location') is not None:
        said += 'Location: %s\r\n' % answer['location']
    stream.sendall(said.encode() + b'\r\n' + text)

def listen(port, context):
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(('::', port))
    listener.listen(64)
    def each(stream):
        note(connected=plain(stream.getsockname()[0]), port=port, row=row()['id'])
        try:
            stream.settimeout(20)
            if port in (443, 8443):
                stream = context.wrap_socket(stream, server_side=True)
            serve(stream, 'https' if port in (443, 8443) else 'http')
        except OSError:
            pass
        finally:
            stream.close()
    def loop():
        while True:
            threading.Thread(target=each, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()

def certificates():
    def run(*words):
        subprocess.run(['openssl', *words], cwd=directory, check=True, capture_output=True)
    def name(it):
        try:
            return 'IP:%s' % ipaddress.ip_address(it)
        except ValueError:
            return 'DNS:%s' % it
    names = json.load(open(os.path.join(directory, 'names.json')))
    open(os.path.join(directory, 'leaf.ext'), 'w').write('subjectAltName=%s\n' % ','.join(map(name, names)))
    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    run('req', '-x509', *key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=World', '-days', '2')
    run('req', *key, '-keyout', 'leaf.key', '-out', 'leaf.csr', '-subj', '/CN=leaf')
    run('x509', '-req', '-in', 'leaf.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
        '-extfile', 'leaf.ext', '-out', 'leaf.pem')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, 'leaf.pem'), os.path.join(directory, 'leaf.key'))
    return context

context = certificates()
for port in ports:
    listen(port, context)
names = socketserver.ThreadingUDPServer(('127.0.0.1', 53), Names)
names.daemon_threads = True
open(os.path.join(directory, 'ready'), 'w').close()
names.serve_forever()
