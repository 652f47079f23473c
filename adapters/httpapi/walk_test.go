// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// wrong is one thing that is wrong with an otherwise good request.
type wrong struct {
	what string
	call
	query string
}

// walker sends requests for what one account has.
type walker struct {
	*api
	w   *world
	ids map[string]string
}

// newWalker is an account with a verified domain and a mailbox.
func newWalker(t *testing.T) *walker {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	own := "/v1/tenants/" + string(w.a.tenant)
	post := func(path, body, key string) reply {
		return a.expect(call{method: "POST", path: own + path, body: body, key: w.a.key, headers: map[string]string{"Idempotency-Key": key}}, 200, "")
	}
	post("/sync", "", "1")
	post("/domains", `{"domain":"example.com"}`, "2")
	w.publish(t, w.a, "example.com")
	post("/domains/example.com/verify", "", "3")
	post("/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7","mailboxes":[{"name":"Ada","email":"ada@example.com"}]}`, "4")
	first := func(path, list string) string {
		all := a.expect(call{method: "GET", path: own + path, key: w.a.key}, 200, "").body[list].([]any)
		return all[0].(map[string]any)["id"].(string)
	}
	made := w.integration(t, w.a)
	return &walker{a, w, map[string]string{"tenant_id": string(w.a.tenant), "domain_name": "example.com", "integration_id": made.ID,
		"domain_id": first("/domains", "domains"), "mailbox_id": first("/mailboxes", "mailboxes")}}
}

// goodBody is the document's own example of an operation, made this account's.
func goodBody(op operation) string {
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

func (k *walker) good(op operation) call {
	path := op.path
	for name, id := range k.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return call{method: strings.ToUpper(op.method), path: path, body: goodBody(op), key: k.w.a.key, headers: map[string]string{}}
}

// faults are all requests with one fault that can be made of an operation.
func (k *walker) faults(op operation) (all []wrong) {
	add := func(what string, change func(*wrong)) {
		f := wrong{what: what, call: k.good(op)}
		change(&f)
		all = append(all, f)
	}
	for name, id := range k.ids {
		if !strings.Contains(op.path, "{"+name+"}") {
			continue
		}
		for _, segment := range append(segments(), url.PathEscape(names()[rand.IntN(len(names())-1)])) {
			add(name+" "+segment, func(f *wrong) { f.path = strings.Replace(f.path, "/"+id, "/"+segment, 1) })
		}
	}
	for _, q := range queries() {
		add("query "+q, func(f *wrong) { f.query = q })
	}
	for _, h := range headers() {
		add(h[0]+": "+h[1], func(f *wrong) { f.headers[h[0]] = h[1] })
	}
	good := goodBody(op)
	for _, document := range documents(good) {
		add("body "+document, func(f *wrong) { f.body = document })
	}
	for _, body := range mutated(good) {
		add("member "+body, func(f *wrong) { f.body = body })
	}
	return all
}

// mutated are a body's variants with one member of it changed, at any depth.
func mutated(good string) (all []string) {
	if good == "" {
		return nil
	}
	var members func(prefix, object, suffix string)
	members = func(prefix, object, suffix string) {
		var parts map[string]json.RawMessage
		if json.Unmarshal([]byte(object), &parts) != nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			with := func(members string) { all = append(all, prefix+members+suffix) }
			rest := ""
			for _, other := range slices.Sorted(maps.Keys(parts)) {
				if other != name {
					rest += fmt.Sprintf("%q:%s,", other, parts[other])
				}
			}
			value := string(parts[name])
			with("{" + strings.TrimSuffix(rest, ",") + "}")
			with(fmt.Sprintf("{%s%q:%s}", rest, strings.ToUpper(name), value))
			with(fmt.Sprintf("{%s%q:%s,%q:%s}", rest, name, value, name, value))
			with(fmt.Sprintf("{%s%q:%s,%q:%s}", rest, name, value, strings.ToUpper(name[:1])+name[1:], `99`))
			with(fmt.Sprintf("{%s%q:%s,\"unknown\":%q}", rest, name, value, canary))
			for _, hostile := range valuesFor(name) {
				with(fmt.Sprintf("{%s%q:%s}", rest, name, hostile))
			}
			if inner, ok := strings.CutPrefix(value, "["); ok && strings.HasPrefix(inner, "{") {
				var list []json.RawMessage
				_ = json.Unmarshal(parts[name], &list)
				members(prefix+fmt.Sprintf("{%s%q:[", rest, name), string(list[0]), "]}"+suffix)
			}
		}
	}
	members("", good, "")
	return all
}

// TestOneFaultAtATime sends each operation of the document requests with one
// fault each, made from the corpus. It sends 20 random faults an operation, and
// 200 when TENANTRY_SOAK is set. Each answer is a documented one and holds no
// secret.
func TestOneFaultAtATime(t *testing.T) {
	k, each := newWalker(t), 20
	if os.Getenv("TENANTRY_SOAK") != "" {
		each = 200
	}
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	statuses := map[int]int{}
	for _, op := range allOperations() {
		if op.method == "delete" || op.path == "/api-key/rotate" {
			continue // their own test: what they do well ends the walk
		}
		all := k.faults(op)
		if len(all) < 80 {
			t.Errorf("%s %s: only %d faults", op.method, op.path, len(all))
		}
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i, f := range all[:min(each, len(all))] {
			statuses[k.bears(f, fmt.Sprintf("walk-%s-%d", op.path, i))/100]++
		}
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	if statuses[4] < 200 || statuses[2] == 0 {
		t.Errorf("answers by class: %v", statuses)
	}
	k.expect(call{method: "GET", path: "/v1/tenants", key: k.w.a.key}, 200, "")
}

// TestOneFaultAtATimeBeforeTheEnd is the same for the operations after which
// there is nothing to walk on: each request has its own account.
func TestOneFaultAtATimeBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	k := &walker{serve(t, w.handler(t)), w, map[string]string{"tenant_id": "eeeeeeee-0000-4000-8000-000000000009"}}
	for _, op := range allOperations() {
		if op.method != "delete" && op.path != "/api-key/rotate" {
			continue
		}
		for i, f := range k.faults(op) {
			if strings.Contains(f.query, "user_email=") || op.method == "delete" {
				k.bears(f, fmt.Sprintf("end-%s-%d", op.path, i))
			}
		}
	}
}

// bears sends one request and judges the answer.
func (k *walker) bears(f wrong, key string) int {
	k.t.Helper()
	if _, set := f.headers["Idempotency-Key"]; !set {
		f.headers["Idempotency-Key"] = key
	}
	target := k.server.URL + f.path
	if f.query != "" {
		target += "?" + f.query
	}
	r, err := http.NewRequest(f.method, k.server.URL, strings.NewReader(f.body))
	if err != nil {
		k.t.Fatal(err)
	}
	if at, err := url.Parse(target); err == nil {
		r.URL = at
	} else {
		return 0 // no client could say this
	}
	good := f.request(k.t, k.server.URL)
	r.Header = good.Header
	if f.headers["Host"] != "" {
		r.Host = f.headers["Host"]
	}
	got := k.send(r)
	if got.status >= 500 && !(got.status == http.StatusServiceUnavailable && got.code() == "provider_unavailable") {
		k.t.Errorf("%s %s with %.200q: %d %s", f.method, f.path, f.what, got.status, got.raw)
	}
	for _, secret := range []string{canary, k.w.a.key, "Correct-Horse"} {
		if strings.Contains(got.raw, secret) {
			k.t.Errorf("%s %s with %.200q repeats a secret: %s", f.method, f.path, f.what, got.raw)
		}
	}
	return got.status
}
