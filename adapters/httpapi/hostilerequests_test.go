// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// faultyRequest is a valid request with one change, which usually makes it invalid.
type faultyRequest struct {
	fault string // describes the change
	call
	query string
}

// requestMutator creates and sends requests for the objects of account A. ids has values of path
// parameters.
type requestMutator struct {
	client *apiClient
	env    *testEnv
	ids    map[string]string
}

// newRequestMutator returns a mutator for an account with a verified domain, a mailbox and an
// integration.
func newRequestMutator(t *testing.T) *requestMutator {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	tenantPath := "/v1/tenants/" + string(env.accountA.tenant)
	post := func(path, body, key string) reply {
		return client.expect(call{method: "POST", path: tenantPath + path, body: body, key: env.accountA.key, headers: map[string]string{"Idempotency-Key": key}}, 200, "")
	}
	post("/sync", "", "1")
	post("/domains", `{"domain":"example.com"}`, "2")
	env.publishRecords(t, env.accountA, "example.com")
	post("/domains/example.com/verify", "", "3")
	post("/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7","mailboxes":[{"name":"Ada","email":"ada@example.com"}]}`, "4")
	firstID := func(path, list string) string {
		answer := client.expect(call{method: "GET", path: tenantPath + path, key: env.accountA.key}, 200, "").body[list].([]any)
		return answer[0].(map[string]any)["id"].(string)
	}
	created := env.addIntegration(t, env.accountA)
	return &requestMutator{client: client, env: env, ids: map[string]string{"tenant_id": string(env.accountA.tenant), "domain_name": "example.com", "integration_id": created.ID,
		"domain_id": firstID("/domains", "domains"), "mailbox_id": firstID("/mailboxes", "mailboxes")}}
}

// exampleBody returns the request example of an operation in the OpenAPI document. It returns "" if
// the operation has no body.
func exampleBody(op operation) string {
	raw, err := json.Marshal(op.doc["requestBody"])
	if err != nil {
		panic(err)
	}
	var body struct {
		Content map[string]struct {
			Example json.RawMessage `json:"example"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return ""
	}
	return string(body.Content["application/json"].Example)
}

func (m *requestMutator) validCall(op operation) call {
	path := op.path
	for name, id := range m.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return call{method: strings.ToUpper(op.method), path: path, body: exampleBody(op), key: m.env.accountA.key, headers: map[string]string{}}
}

// faultyRequests returns requests for an operation. Each of them has one change, which usually
// makes it invalid. The change is in a path parameter, the query, a header, the whole body, or a
// member of the body.
func (m *requestMutator) faultyRequests(op operation, random *rand.Rand) (requests []faultyRequest) {
	add := func(fault string, change func(*faultyRequest)) {
		f := faultyRequest{fault: fault, call: m.validCall(op)}
		change(&f)
		requests = append(requests, f)
	}
	names := domainNames()
	for _, name := range slices.Sorted(maps.Keys(m.ids)) {
		id := m.ids[name]
		if !strings.Contains(op.path, "{"+name+"}") {
			continue
		}
		for _, segment := range append(pathSegments(), url.PathEscape(names[random.IntN(len(names))])) {
			add(name+" "+segment, func(f *faultyRequest) { f.path = strings.Replace(f.path, "/"+id, "/"+segment, 1) })
		}
	}
	for _, q := range queryStrings() {
		add("query "+q, func(f *faultyRequest) { f.query = q })
	}
	for _, h := range hostileHeaders() {
		add(h[0]+": "+h[1], func(f *faultyRequest) { f.headers[h[0]] = h[1] })
	}
	validBody := exampleBody(op)
	for _, document := range wholeBodies(validBody) {
		add("body "+document, func(f *faultyRequest) { f.body = document })
	}
	for _, body := range mutatedBodies(validBody) {
		add("member "+body, func(f *faultyRequest) { f.body = body })
	}
	return requests
}

// mutatedBodies returns variants of a body. In each variant, one member is removed, repeated,
// renamed, added, or has a different value. If a member is a list of objects, the variants also
// change the members of its first object, and drop its other objects.
func mutatedBodies(validBody string) (bodies []string) {
	if validBody == "" {
		return nil
	}
	var addVariants func(prefix, object, suffix string) // the body is prefix, object and suffix
	addVariants = func(prefix, object, suffix string) {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(object), &members) != nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			addBody := func(variant string) { bodies = append(bodies, prefix+variant+suffix) }
			others := "" // the text of the other members
			for _, otherName := range slices.Sorted(maps.Keys(members)) {
				if otherName != name {
					others += fmt.Sprintf("%q:%s,", otherName, members[otherName])
				}
			}
			value := string(members[name])
			addBody("{" + strings.TrimSuffix(others, ",") + "}")
			addBody(fmt.Sprintf("{%s%q:%s}", others, strings.ToUpper(name), value))
			addBody(fmt.Sprintf("{%s%q:%s,%q:%s}", others, name, value, name, value))
			addBody(fmt.Sprintf("{%s%q:%s,%q:%s}", others, name, value, strings.ToUpper(name[:1])+name[1:], `99`))
			addBody(fmt.Sprintf("{%s%q:%s,\"unknown\":%q}", others, name, value, canary))
			for _, hostile := range valuesFor(name) {
				addBody(fmt.Sprintf("{%s%q:%s}", others, name, hostile))
			}
			if inner, isList := strings.CutPrefix(value, "["); isList && strings.HasPrefix(inner, "{") {
				var list []json.RawMessage
				_ = json.Unmarshal(members[name], &list)
				addVariants(prefix+fmt.Sprintf("{%s%q:[", others, name), string(list[0]), "]}"+suffix)
			}
		}
	}
	addVariants("", validBody, "")
	return bodies
}

// TestFaultyRequestsGetDocumentedAnswers sends requests with one fault to each operation that is
// not destructive. It sends up to 20 random faults per operation, and up to 200 when TENANTRY_SOAK
// is set. Each answer must be documented and contain no secret.
func TestFaultyRequestsGetDocumentedAnswers(t *testing.T) {
	mutator, perOperation := newRequestMutator(t), 20
	if soak.Enabled() {
		perOperation = 200
	}
	random := soak.Rand(t)
	answersByClass := map[int]int{} // the class of a status is its first digit
	for _, op := range allOperations() {
		if op.method == "delete" || op.path == "/api-key/rotate" {
			continue // see TestFaultyDestructiveRequestsGetDocumentedAnswers
		}
		requests := mutator.faultyRequests(op, random)
		if len(requests) < 80 {
			t.Errorf("%s %s: faultyRequests returns %d requests, want at least 80", op.method, op.path, len(requests))
		}
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for i, f := range requests[:min(perOperation, len(requests))] {
			answersByClass[mutator.checkRequest(f, fmt.Sprintf("walk-%s-%d", op.path, i))/100]++
		}
	}
	if answersByClass[4] < 200 || answersByClass[2] == 0 {
		t.Errorf("the numbers of answers by class are %v, want at least 200 of 4xx and some of 2xx", answersByClass)
	}
	mutator.client.expect(call{method: "GET", path: "/v1/tenants", key: mutator.env.accountA.key}, 200, "")
}

// TestFaultyDestructiveRequestsGetDocumentedAnswers sends requests with one fault to the operations
// that delete an object or invalidate the API key. The tenant id is unknown, and other ids stay
// placeholders, so that no request deletes an object. Of the requests to /api-key/rotate, only
// those with a faulty user_email are sent, because the others would replace the key.
func TestFaultyDestructiveRequestsGetDocumentedAnswers(t *testing.T) {
	env := newTestEnv(t)
	mutator := &requestMutator{client: serve(t, env.handler(t)), env: env, ids: map[string]string{"tenant_id": "eeeeeeee-0000-4000-8000-000000000009"}}
	random, sent := soak.Rand(t), 0
	for _, op := range allOperations() {
		if op.method != "delete" && op.path != "/api-key/rotate" {
			continue
		}
		for i, f := range mutator.faultyRequests(op, random) {
			if strings.Contains(f.query, "user_email=") || op.method == "delete" {
				mutator.checkRequest(f, fmt.Sprintf("end-%s-%d", op.path, i))
				sent++
			}
		}
	}
	if sent == 0 {
		t.Error("no request was sent, want some for each destructive operation")
	}
}

// checkRequest sends a request and returns the status of its answer, or 0 when an HTTP client
// cannot send the request. If the request has no Idempotency-Key, it gets idempotencyKey.
// checkRequest reports an error for an answer with a secret. It also reports an error for a status
// of 500 or more, except 503 with the code provider_unavailable.
func (m *requestMutator) checkRequest(f faultyRequest, idempotencyKey string) int {
	m.client.t.Helper()
	if _, isSet := f.headers["Idempotency-Key"]; !isSet {
		f.headers["Idempotency-Key"] = idempotencyKey
	}
	target := m.client.server.URL + f.path
	if f.query != "" {
		target += "?" + f.query
	}
	targetURL, err := url.Parse(target)
	if err != nil {
		return 0
	}
	r := f.request(m.client.t, m.client.server.URL)
	r.URL = targetURL
	if f.headers["Host"] != "" {
		r.Host = f.headers["Host"]
	}
	got := m.client.send(r)
	if got.status >= 500 && !(got.status == http.StatusServiceUnavailable && got.code() == "provider_unavailable") {
		m.client.t.Errorf("%s %s with %.200q got %d %s, want at most a 503 with the code provider_unavailable", f.method, f.path, f.fault, got.status, got.raw)
	}
	for _, secret := range []string{canary, m.env.accountA.key, "Correct-Horse"} {
		if strings.Contains(got.raw, secret) {
			m.client.t.Errorf("%s %s with %.200q repeats a secret: %s", f.method, f.path, f.fault, got.raw)
		}
	}
	return got.status
}

// canary replaces a secret in requests. No answer may contain it.
const canary = "Kanarien-Vogel-77x"

// nesting returns nested empty arrays with this many levels.
func nesting(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// unusualValues returns texts for the value of a member: JSON values that are rarely valid, and
// texts that are not JSON.
func unusualValues() []string {
	return []string{`null`, `true`, `0`, `-0`, `-1`, `26`, `2.5`, `5.0`, `1e1`, `1e9`, `1e400`, `-1e400`, `9223372036854775808`, `18446744073709551616`,
		`"5"`, `""`, `[]`, `{}`, `[null]`, `[[]]`, `[{}]`, `{"a":null}`, nesting(15), nesting(17), nesting(9990), `NaN`, `Infinity`, `0x10`, `05`, `'a'`, `undefined`,
		`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", `"\x41"`, "\"a\nb\"", `"` + strings.Repeat("x", 60<<10) + `"`,
		`[` + strings.Repeat(`1,`, 20000) + `1]`, `[` + strings.Repeat(`{},`, 15000) + `{}]`}
}

// injectionStrings returns strings with a meaning in a system behind the API, such as a shell or
// SQL, and strings with unusual lengths or characters.
func injectionStrings() []string {
	return []string{" ", "\t", "\u200b", "\u202egnp.exe", "👩‍👩‍👧‍👦", "\r\nBcc: x@y.example", "=cmd()|' /C calc'!A0", "<script>alert(1)</script>", `"; Remove-Mailbox -Identity *`,
		"$(id)", "`id`", strings.Repeat("'", 1000), "{{7*7}}", "${jndi:ldap://x}", "') or 1 eq 1", "*)(uid=*", "'; DROP TABLE tenants;--", "../../etc/passwd", "__proto__",
		"constructor", "%00", "%s%n", strings.Repeat("a", 256), strings.Repeat("a", 257), strings.Repeat("ä", 256), "e\u0301", "\u212b", "\ufb01", "\ufeff", "\u0001", "\u007f"}
}

// domainNames returns invalid, deceptive and unusual domain names.
func domainNames() []string {
	label := strings.Repeat("a", 63)
	return []string{"EXAMPLE.com", "example.com.", "example.com..", ".example.com", "a..example.com", label + ".example", label + "a.example",
		label + "." + label + "." + label + "." + label[:61], label + "." + label + "." + label + "." + label, "nodots", "exa mple.com", "a_b.example", "-a.example", "a-.example",
		"xn--mller-kva.example", "xn--a.example", "xn--example-.com", "xn--zzzzzzzzzzzz.example", "müller.example", "a。example", "a\u200d.example", "\u202eexample.com", "аррle.example",
		"127.0.0.1", "[::1]", "0x7f.1", "example.com:25", "https://example.com/", "user@example.com", "example.com/x", "*.example.com", "a\r\nb.example", "a\x00.example", "a\t.example",
		"com", "co.uk", "github.io", "localhost", "example", "invalid", "internal", "in-addr.arpa", "OnMicrosoft.COM", "a.ONMICROSOFT.com.", "a.b.onmicrosoft.com",
		"mail.onmicrosoft.com", "ｏnmicrosoft.com", "a.ｏnmicrosoft.com", "notonmicrosoft.com", "onmicrosoft.com.evil.example", strings.Repeat("a.", 30000) + "example"}
}

// mailboxAddresses returns invalid, deceptive and unusual mailbox addresses.
func mailboxAddresses() []string {
	values := []string{"", "@example.com", "a@", "a", "a@b@example.com", `"a b"@example.com`, ".a@example.com", "a.@example.com", "a..b@example.com", "a+b@example.com",
		"ä@example.com", "Evil <a@example.com>", "a@example.com (comment)", "a@sub.example.com", "a@EXAMPLE.COM", "a@example.com.", "a@other.example", "a@xn--mller-kva.example",
		"a@müller.example", "a@example.com\r\nBcc: b@example.com", "a\x00@example.com", "postmaster@example.com", "ABUSE@example.com", "<a@example.com>", "a@[127.0.0.1]",
		strings.Repeat("a", 64) + "@example.com", strings.Repeat("a", 65) + "@example.com"}
	for _, name := range domainNames() {
		values = append(values, "a@"+name)
	}
	return values
}

// passwords returns valid and invalid passwords, some of which contain the canary.
func passwords() []string {
	return []string{"", "1234567", "12345678", "kanarien" + "-vogel", canary + strings.Repeat("x", 238), canary + strings.Repeat("x", 239), strings.Repeat(" ", 8), canary + "\x00", "ä" + canary, canary}
}

func asJSON(texts []string) (values []string) {
	for _, s := range texts {
		raw, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		values = append(values, string(raw))
	}
	return values
}

// valuesFor returns JSON values to try for a member with this name.
func valuesFor(member string) []string {
	values := append(unusualValues(), asJSON(injectionStrings())...)
	switch {
	case strings.Contains(member, "domain"):
		values = append(values, asJSON(domainNames())...)
	case strings.Contains(member, "email"):
		values = append(values, asJSON(mailboxAddresses())...)
	case strings.Contains(member, "password"):
		values = append(values, asJSON(passwords())...)
	}
	return values
}

// pathSegments returns escaped values for a segment of a path.
func pathSegments() []string {
	return []string{"x", "0", "-", "%20", "%00", "%0a", "%0d%0aSet-Cookie:%20a=b", "%2e%2e", "..%2f..%2f", "a%2fb", "%ff", "%c0%af", "%ed%a0%80", "%D0%BF.example", "%3Cscript%3E",
		"%27%20OR%201=1--", "%25", "%252e", "00000000-0000-0000-0000-000000000000", "urn:uuid:aaaaaaaa-0000-4000-8000-000000000001", "%7Baaaaaaaa-0000-4000-8000-000000000001%7D",
		"aaaaaaaa000040008000000000000001", "AAAAAAAA-0000-4000-8000-000000000001", strings.Repeat("9", 3000), strings.Repeat("%C3%A4", 500), "example.com.", "EXAMPLE.COM", "a;b=c", "~", "*", "(1)"}
}

// queryStrings returns complete query strings.
func queryStrings() []string {
	return []string{"x=1", "x=1&x=2", "%00=1", "%zz", "a=%ff", "user_email=a&user_email=b", "user_email=", "user_email=%00", "user_email=%ff", "limit=0", "limit=-1", "limit=abc", "limit=9223372036854775808",
		"offset=-1", "active_only=yes", "tenant_id=x", "limit=1&limit=2", "limit[]=1", ";", "&&&&", "=", strings.Repeat("a=b&", 3000), "user_email=" + strings.Repeat("a", 8000), "user_email=" + canary}
}

// acceptHeadersOfJSON are unusual Accept headers that allow a JSON answer.
var acceptHeadersOfJSON = []string{"application/json;, text/plain", "application/json; , */*", "text/html;q, application/json", "*;q, */*", "*/*, json"}

// hostileHeaders returns pairs of a header name and a value.
func hostileHeaders() [][2]string {
	headers := [][2]string{{"Idempotency-Key", ""}, {"Idempotency-Key", "a b"}, {"Idempotency-Key", strings.Repeat("k", 256)}, {"Idempotency-Key", "ü"}, {"Idempotency-Key", `"quoted"`},
		{"X-Request-ID", "a b"}, {"X-Request-ID", strings.Repeat("x", 8<<10)}, {"X-Request-ID", "<script>"}, {"X-Request-ID", "${x}"}, {"X-Request-ID", "\xe9"},
		{"X-HTTP-Method-Override", "DELETE"}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Host", "evil.example"}, {"Accept", "text/html"}, {"Accept", "application/xml"},
		{"Accept", "application/json;q=0"}, {"Accept", ";;;,,,q=x"}, {"Accept", strings.Repeat("a/b,", 2000)}, {"Traceparent", "00-0-0-0"},
		{"Traceparent", strings.Repeat("0", 500)}, {"Traceparent", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"Tracestate", strings.Repeat("a=b,", 500)},
		{"Baggage", strings.Repeat("a=b,", 2000)}, {"Content-Encoding", "gzip"}, {"Content-Encoding", "identity"}, {"Authorization", "Bearer " + canary}, {"Authorization", "Basic " + canary},
		{"Authorization", "Bearer"}, {"Authorization", "Bearer  x"}, {"Authorization", strings.Repeat("a", 10000)}, {"Cookie", strings.Repeat("a=b;", 2000)}, {"Range", "bytes=0-1"}, {"If-None-Match", "*"},
		{"Origin", "https://evil.example"}, {"Host", "evil.example"}, {"Upgrade", "h2c"}, {"Connection", "Upgrade"}}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/cbor", "application/json; charset=utf-16", "application/json;;", "application/json ; charset=utf-8", `application/json; profile="a+b"`, "application/jsonx", "x", "*/*"} {
		headers = append(headers, [2]string{"Content-Type", kind})
	}
	for _, accept := range acceptHeadersOfJSON {
		headers = append(headers, [2]string{"Accept", accept})
	}
	return headers
}

// wholeBodies returns complete bodies that are invalid or unusual. Some of them are variants of
// validBody.
func wholeBodies(validBody string) []string {
	return []string{"", "{}", "[]", "null", "1", `"x"`, "{", "}", validBody + "x", validBody + validBody, "\ufeff" + validBody, " \n\t" + validBody + "\n", "a=b", "<a/>", "\x1f\x8b\x08\x00", "\x00", nesting(16), nesting(20000),
		`{"a":` + nesting(14) + `}`, strings.Repeat(" ", 64<<10), strings.Repeat(" ", 64<<10+1), `{"unknown":"` + canary + `"}`, `{"__proto__":{}}`, `{"":1}`, `{"$schema":"x"}`, "{\"a\xff\":1}", `{"a":1,"a":2}`}
}
