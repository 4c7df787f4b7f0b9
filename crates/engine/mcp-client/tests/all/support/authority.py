"""An MCP server and its authorization server in one process, with habits.

    authority.py '{"metadata": "oidc-append", ...}'

Prints its address. Habits are the fields of DEFAULTS; `POST /control` with a JSON
object changes them while it runs, `GET /log` tells every request to the
authorization server. Only what the standard library has.
"""

import base64
import json
import socket
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEFAULTS = {
    # Where the authorization server describes itself: root, insert, oidc-root,
    # oidc-insert, oidc-append, odd (only the user knows) or none.
    "metadata": "root",
    # Where the server says who its authorization server is: path, root, odd
    # (only the challenge knows) or none.
    "resource": "path",
    "metadata_status": 200,
    "metadata_patch": {},
    "resource_patch": {},
    "challenge": True,
    "registration": "public",  # public, secret, none, refused, html
    "auth_method": None,  # what the token endpoint insists on
    "iss": None,  # None: not sent, else what is sent ("right" is)
    "authorize_error": None,
    "token": "json",  # json, form, strings, error200, 500, html, hang, huge, refused, echo
    "refresh": "rotate",  # rotate, keep, none, or an OAuth error, or 500
    "grant": "authorization_code",
    "lifetime": 3600,
    "scope": None,
    "step_up": None,  # the scope calls of the tool `admin` need
    "always_403": False,
    "bearer": "Bearer",
    "company": "/company",  # the identity provider's issuer
    "jag": "urn:ietf:params:oauth:token-type:id-jag",
}


class World:
    def __init__(self, habits):
        self.lock = threading.Lock()
        self.habits = {**DEFAULTS, **habits}
        self.log = []
        self.count = 0
        self.good = {}  # access token -> scopes
        self.refresh = None
        self.dead = set()
        self.reused = 0
        self.codes = {}
        self.clients = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None

    def log_message(self, *args):
        pass

    # -- helpers

    def say(self, status, body=b"", kind="application/json", headers=()):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        elif isinstance(body, str):
            body = body.encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    @property
    def base(self):
        return "http://127.0.0.1:%d" % self.server.server_address[1]

    def issuer(self):
        if self.world.habits["metadata"] in ("insert", "oidc-insert", "oidc-append"):
            return self.base + "/tenant/one"
        return self.base

    def note(self, what, **fields):
        with self.world.lock:
            self.world.log.append({"what": what, **fields})

    # -- routes

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        habits = self.world.habits
        where = {
            "root": "/.well-known/oauth-authorization-server",
            "insert": "/.well-known/oauth-authorization-server/tenant/one",
            "oidc-root": "/.well-known/openid-configuration",
            "oidc-insert": "/.well-known/openid-configuration/tenant/one",
            "oidc-append": "/tenant/one/.well-known/openid-configuration",
            "odd": "/somewhere/else.json",
        }.get(habits["metadata"])
        resource = {
            "path": "/.well-known/oauth-protected-resource/mcp",
            "root": "/.well-known/oauth-protected-resource",
            "odd": "/who-let-you-in",
        }.get(habits["resource"])
        if url.path == "/log":
            with self.world.lock:
                return self.say(200, {"log": self.world.log, "reused": self.world.reused})
        if url.path == "/company/.well-known/openid-configuration":
            described = {"issuer": self.base + habits["company"], "token_endpoint": self.base + "/company/token"}
            return self.say(200, described)
        if url.path == where:
            return self.metadata()
        if url.path == resource:
            self.note("resource")
            body = {"resource": self.base + "/mcp", "authorization_servers": [self.issuer()]}
            if habits["scope"]:
                body["scopes_supported"] = habits["scope"].split()
            return self.say(200, {**body, **habits["resource_patch"]})
        if url.path == "/authorize":
            return self.authorize(query)
        if url.path == "/mcp":
            return self.mcp()
        self.say(404, "<html>not here</html>", "text/html")

    def metadata(self):
        habits = self.world.habits
        self.note("metadata")
        body = {
            "issuer": self.issuer(),
            "authorization_endpoint": self.base + "/authorize",
            "token_endpoint": self.base + "/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        if habits["registration"] != "none":
            body["registration_endpoint"] = self.base + "/register"
        if habits["iss"]:
            body["authorization_response_iss_parameter_supported"] = True
        if habits["auth_method"]:
            body["token_endpoint_auth_methods_supported"] = [habits["auth_method"]]
        for name, value in habits["metadata_patch"].items():
            if value is None:
                body.pop(name, None)
            else:
                body[name] = value
        self.say(habits["metadata_status"], body)

    def authorize(self, query):
        habits = self.world.habits
        self.note("authorize", **query)
        target = query["redirect_uri"] + "?state=" + urllib.parse.quote(query["state"])
        if habits["authorize_error"]:
            target += "&error=" + habits["authorize_error"] + "&error_description=not+today"
        else:
            with self.world.lock:
                self.world.count += 1
                code = "secret-code-%d" % self.world.count
                self.world.codes[code] = query
            target += "&code=" + code
        if habits["iss"]:
            iss = self.issuer() if habits["iss"] == "right" else habits["iss"]
            target += "&iss=" + urllib.parse.quote(iss, safe="")
        self.say(302, b"", headers=[("location", target)])

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        path = urllib.parse.urlsplit(self.path).path
        if path == "/control":
            with self.world.lock:
                change = json.loads(body)
                if change.pop("forget_access", False):
                    self.world.good = {}
                if change.pop("forget_refresh", False):
                    self.world.refresh = None
                self.world.habits.update(change)
            return self.say(200, {})
        if path == "/register":
            return self.register(json.loads(body))
        if path == "/token":
            return self.token(dict(urllib.parse.parse_qsl(body.decode())))
        if path == "/company/token":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            name, method, secret = self.client(form)
            self.note("exchange", client=name, method=method, secret=secret, **form)
            if form.get("subject_token") != "secret-in-file":
                return self.say(400, {"error": "invalid_grant", "error_description": "unknown person"})
            kind = self.world.habits["jag"]
            return self.say(200, {"access_token": "secret-jag", "issued_token_type": kind, "token_type": "N_A"})
        if path == "/mcp":
            return self.mcp(body)
        self.say(404, "<html>not here</html>", "text/html")

    def do_DELETE(self):
        self.say(405)

    def register(self, body):
        habits = self.world.habits
        self.note("register", **body)
        if habits["registration"] == "refused":
            return self.say(403, {"error": "access_denied", "error_description": "by invitation only"})
        if habits["registration"] == "html":
            return self.say(500, "<html>" + "oops " * 5000 + "</html>", "text/html")
        with self.world.lock:
            self.world.count += 1
            client = {"client_id": "client-%d" % self.world.count, "redirect_uris": body["redirect_uris"]}
            if habits["registration"] == "secret":
                client["client_secret"] = "secret-of-%s" % client["client_id"]
            self.world.clients[client["client_id"]] = client.get("client_secret")
        self.say(201, client)

    def client(self, form):
        """Who asks, and how it shows that."""
        given = self.headers.get("authorization") or ""
        if given.startswith("Basic "):
            name, _, secret = base64.b64decode(given[6:]).decode().partition(":")
            return urllib.parse.unquote_plus(name), "client_secret_basic", urllib.parse.unquote_plus(secret)
        if "client_assertion" in form:
            return None, "private_key_jwt", form["client_assertion"]
        if "client_secret" in form:
            return form.get("client_id"), "client_secret_post", form["client_secret"]
        return form.get("client_id"), "none", None

    def token(self, form):
        habits = self.world.habits
        name, method, secret = self.client(form)
        self.note("token", client=name, method=method, secret=secret, **form)
        kind = habits["token"]
        if kind == "hang":
            time.sleep(3600)
        if kind == "500":
            return self.say(500, "<html>try later</html>", "text/html")
        if kind == "html":
            return self.say(200, "<html>log in here: %s</html>" % form.get("code"), "text/html")
        if kind == "huge":
            return self.say(200, b"x" * (3 << 20))
        if kind in ("refused", "echo"):
            echo = " ".join(form.values()) if kind == "echo" else "no"
            return self.say(400, {"error": "invalid_request", "error_description": echo})
        if habits["auth_method"] and method != habits["auth_method"]:
            return self.say(401, {"error": "invalid_client", "error_description": method})
        problem = self.granted(form)
        if problem:
            return self.say(500 if problem == "500" else 400, {"error": problem})
        body = self.issued(form)
        if kind == "form":
            return self.say(200, urllib.parse.urlencode(body), "application/x-www-form-urlencoded")
        if kind == "strings":
            body["expires_in"] = str(body["expires_in"])
            body.pop("token_type")
        if kind == "error200":
            body = {"error": "bad_verification_code", "error_description": "the code is used"}
        self.say(200, body)

    def granted(self, form):
        habits = self.world.habits
        grant = form.get("grant_type")
        if grant == "authorization_code":
            asked = self.world.codes.pop(form.get("code"), None)
            return None if asked and asked["redirect_uri"] == form.get("redirect_uri") else "invalid_grant"
        if grant == "refresh_token":
            with self.world.lock:
                if habits["refresh"] not in ("rotate", "keep"):
                    return habits["refresh"]
                if form["refresh_token"] != self.world.refresh:
                    self.world.reused += 1
                    return "invalid_grant"
            return None
        return None if grant == habits["grant"] else "unsupported_grant_type"

    def issued(self, form):
        habits = self.world.habits
        with self.world.lock:
            self.world.count += 1
            access = "secret-access-%d" % self.world.count
            scopes = (form.get("scope") or "").split()
            if not scopes and form.get("grant_type") == "authorization_code":
                scopes = []
            self.world.good = {access: scopes}
            body = {"access_token": access, "token_type": habits["bearer"], "expires_in": habits["lifetime"]}
            if habits["refresh"] != "none" and form.get("grant_type") in ("authorization_code", "refresh_token"):
                if habits["refresh"] != "keep" or self.world.refresh is None:
                    self.world.refresh = "secret-refresh-%d" % self.world.count
                body["refresh_token"] = self.world.refresh
            asked = [entry for entry in self.world.log if entry["what"] == "authorize"]
            if asked and asked[-1].get("scope"):
                self.world.good[access] = asked[-1]["scope"].split()
        return body

    def mcp(self, body=None):
        habits = self.world.habits
        scheme, _, token = (self.headers.get("authorization") or "").partition(" ")
        with self.world.lock:
            scopes = self.world.good.get(token)
        where = {
            "path": "/.well-known/oauth-protected-resource/mcp",
            "root": "/.well-known/oauth-protected-resource",
            "odd": "/who-let-you-in",
        }.get(habits["resource"])
        told = ["Bearer"]
        if where and habits["challenge"]:
            told.append('resource_metadata="%s%s"' % (self.base, where))
        if scopes is None:
            return self.say(401, {"error": "unauthorized"}, headers=[("www-authenticate", " ".join(told))])
        if body is None:
            return self.say(405)
        message = json.loads(body)
        method = message.get("method")
        wants = habits["step_up"] if method == "tools/call" and message["params"]["name"] == "admin" else None
        if wants and (habits["always_403"] or wants not in scopes):
            told = 'Bearer error="insufficient_scope", scope="%s"' % wants
            if where:
                told += ', resource_metadata="%s%s"' % (self.base, where)
            return self.say(403, {"error": "insufficient_scope"}, headers=[("www-authenticate", told)])
        if message.get("id") is None:
            return self.say(202)
        result = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}},
            "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}} for name in ("echo", "admin")]},
            "tools/call": {"content": [{"type": "text", "text": "let in"}]},
        }.get(method)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            answer["error"] = {"code": -32601, "message": "no"}
        else:
            answer["result"] = result
        self.say(200, answer)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


def main():
    Handler.world = World(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    server = Server(("127.0.0.1", 0), Handler)
    # Answers are written in pieces.
    server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
    server.serve_forever()


main()
