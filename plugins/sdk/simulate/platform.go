// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Platform describes the simulator of a sending platform by the properties in which platforms
// differ. K is the type of the data that the platform stores for an API key. A is the type of an
// account in the API. V is the type of the state that only this platform has, including the
// settings with which control calls change its behaviour.
type Platform[K, A, V any] struct {
	Name   string // the provider's id
	Title  string // the display name on pages
	Prefix string // the path prefix of the API, such as "/api/v1"
	// TrailingSlash makes every path valid with and without a slash at its end.
	TrailingSlash bool
	// Workspace is the default workspace of control calls.
	Workspace string

	// Fresh returns the state of a new simulator. Maps may be nil.
	Fresh func(now time.Time) State[K, A, V]
	// Ready returns the settings, the secrets and the customer's credential for a simulator at url.
	// host is the host and port of url.
	Ready func(url, host string) Ready

	// Admit checks the key and the rate limits of each API request, and sets Request.Key. It
	// returns a refusal, or the zero Answer to admit the request. Request.Route is nil if no route
	// matches.
	Admit func(*Request[K, A, V]) Answer
	// Routes are the operations of the API.
	Routes []Route[K, A, V]
	// NotFound answers an admitted request that no route matches.
	NotFound func(*Request[K, A, V]) Answer
	// PlannedFault returns the answer with a status in the platform's error format. retryAfter is
	// the value of the header Retry-After, or 0. The simulator sets the header itself.
	PlannedFault func(status, retryAfter int) Answer

	// NewKey returns the K into which Request.PutKey decodes the body of a control call. Members
	// that the body omits keep this value. If NewKey is nil, PutKey begins with the zero K.
	NewKey func() K
	// NewAccount returns a new connected account for the mail address.
	NewAccount func(q *Request[K, A, V], workspace, address string) A
	// Touch sets the time at which an account was changed.
	Touch func(a *A, now time.Time)
	// WorkspaceOf returns the number of the workspace in the JSON of an account, or 0 if the JSON
	// has none. If WorkspaceOf is set, control calls see the accounts of all workspaces. If
	// WorkspaceOf is nil, control calls see the accounts of one workspace.
	WorkspaceOf func(a *A) int

	// Page is the page on which a person connects a mailbox.
	Page Page
	// SignedIn changes the state after a person has connected a mailbox on the page.
	SignedIn func(q *Request[K, A, V], workspace, address string)

	// Suite tells the conformance suite how to use the simulator.
	Suite Suite

	// Controls are the control calls of this platform, keyed by a pattern such as "PUT
	// /keys/{key}". Every platform also has the calls GET /suite, GET /accounts, PUT
	// /accounts/{address} and DELETE /accounts/{address}. Controls can replace them. The result of
	// a function is the answer. A nil result stands for an empty object. If a function fails, the
	// call changes nothing.
	Controls map[string]func(*Request[K, A, V]) (any, error)
}

// Route is an operation of the API.
type Route[K, A, V any] struct {
	// On is a method and a path below Platform.Prefix, as in http.ServeMux. The required query
	// parameters may follow, as in "GET /accounts?search". If several routes have the same method
	// and path, a request is served by the first route whose query parameters are all in the
	// request.
	On string
	// Name is the name of the operation in the journal and in planned faults.
	Name string
	// Scope is a text that only Platform.Admit reads, for example the permission that the operation
	// requires.
	Scope string
	// ReadOnly is true if the operation changes nothing although its method is not GET.
	ReadOnly bool
	// OwnWait is true if a Retry-After in an answer of the operation applies only to this
	// operation. Otherwise it applies to all calls with the same API key.
	OwnWait bool
	// Serve answers a request. The state is locked while Serve runs. Unless the method is GET, the
	// state is saved afterwards.
	Serve func(*Request[K, A, V]) Answer
}

// Page describes the page on which a person connects a mailbox. If Workspace is set, the page is a
// part of the platform's dashboard and connects mailboxes to that workspace. Otherwise, the links
// of Request.StartSignIn lead to the page.
type Page struct {
	Path, Operation string
	Workspace       string
	// ClosedStatus is the status of the page for an unknown, used or expired link. 0 stands for
	// 400.
	ClosedStatus int
}

// Answer is an answer of the API. If Body is nil, the answer has only a status and headers.
type Answer struct {
	Status int
	Body   any // encoded as JSON
}

// OK returns the answer 200 with a body.
func OK(body any) Answer { return Answer{http.StatusOK, body} }

// encode returns the body of an answer. Every body can be encoded as JSON, because it consists of
// plain values.
func (a Answer) encode() []byte {
	var raw bytes.Buffer
	if a.Body != nil {
		_ = json.NewEncoder(&raw).Encode(a.Body)
	}
	return raw.Bytes()
}

func (a Answer) send(w http.ResponseWriter, body []byte) {
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body)
}

// server is a running Platform.
type server[K, A, V any] struct {
	platform Platform[K, A, V]
	kit      *Kit
	file     *File[State[K, A, V]]
	mux      *http.ServeMux
	signIns  SignInLinks[State[K, A, V]]
}

// Open returns the handler of the simulator, and the content of the line that the simulator prints
// when it is ready. It fails in the same cases as OpenState.
func (p Platform[K, A, V]) Open(o Options) (http.Handler, Ready, error) {
	kit, file, err := OpenState(p.Name, "platform.json", o, func(now time.Time) State[K, A, V] { return p.Fresh(now).withMaps() })
	if err != nil {
		return nil, Ready{}, err
	}
	s := &server[K, A, V]{platform: p, kit: kit, file: file, mux: http.NewServeMux()}
	s.signIns = SignInLinks[State[K, A, V]]{
		Platform: p.Title, Path: p.Page.Path, ClosedStatus: p.Page.ClosedStatus, Kit: kit, File: file,
		Started: func(state *State[K, A, V]) map[string]*SignIn { return state.SignIns }, Attach: s.attach,
	}
	endpoints := map[string]endpoint[K, A, V]{"/": {server: s}}
	for _, route := range p.Routes {
		method, path, _ := strings.Cut(route.On, " ")
		path, _, _ = strings.Cut(path, "?")
		pattern := method + " " + p.Prefix + path
		endpoints[pattern] = endpoint[K, A, V]{s, append(endpoints[pattern].routes, &route)}
	}
	for pattern, e := range endpoints {
		s.mux.Handle(pattern, e)
	}
	ready := p.Ready(o.URL, kit.Host())
	ready.Provider, ready.URL, ready.Control = p.Name, o.URL, []string{}
	return kit.Handler(s, s.controlHandler()), ready, nil
}

// attach implements SignInLinks.Attach.
func (s *server[K, A, V]) attach(state *State[K, A, V], workspace, address string, now time.Time) {
	s.platform.SignedIn(&Request[K, A, V]{State: state, Now: now, server: s}, workspace, address)
}

// Call implements Provider. A planned 504 stands for the answer of a gateway, so the request is
// executed. A request for the page of a sign-in link does not count as a write, because it comes
// from a person and not from the plugin.
func (s *server[K, A, V]) Call(r *http.Request, _ []byte) Call {
	c := Call{Write: r.Method != http.MethodGet, Host: s.platform.Prefix, Scope: credential(r), WorkAt: []int{http.StatusGatewayTimeout}}
	if r.URL.Path == s.platform.Page.Path {
		if c.Operation = s.platform.Page.Operation; s.platform.Page.Workspace == "" {
			return Call{Operation: c.Operation}
		}
		return c
	}
	r = s.withoutSlash(r)
	handler, _ := s.mux.Handler(r)
	if e, ok := handler.(endpoint[K, A, V]); ok {
		if route := e.match(r); route != nil {
			c.Operation, c.Write = route.Name, c.Write && !route.ReadOnly
			if route.OwnWait {
				c.Scope += " " + route.Name
			}
		}
	}
	return c
}

// credential returns the API key of a request. Some platforms expect the key in a header, others in
// a query parameter.
func credential(r *http.Request) string {
	return cmp.Or(r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.URL.Query().Get("api_key"))
}

// Fail implements Provider.
func (s *server[K, A, V]) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	answer := s.platform.PlannedFault(status, retryAfter)
	answer.send(w, answer.encode())
}

// ServeHTTP implements Provider.
func (s *server[K, A, V]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != s.platform.Page.Path:
		s.mux.ServeHTTP(w, s.withoutSlash(r))
	case s.platform.Page.Workspace == "":
		s.signIns.ServeHTTP(w, r)
	default:
		ConnectPage{Platform: s.platform.Title, Path: s.platform.Page.Path, Connect: func(address string) error {
			return s.file.Do(func(state *State[K, A, V]) { s.attach(state, s.platform.Page.Workspace, address, s.kit.Now()) })
		}}.ServeHTTP(w, r)
	}
}

// withoutSlash returns r without the slash at the end of its path, if the platform ignores this
// slash.
func (s *server[K, A, V]) withoutSlash(r *http.Request) *http.Request {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if !s.platform.TrailingSlash || path == "" {
		return r
	}
	trimmed := *r
	trimmed.URL = new(url.URL)
	*trimmed.URL = *r.URL
	trimmed.URL.Path, trimmed.URL.RawPath = path, strings.TrimSuffix(r.URL.RawPath, "/")
	return &trimmed
}

// endpoint has the routes of one method and path. They differ in their query parameters.
type endpoint[K, A, V any] struct {
	server *server[K, A, V]
	routes []*Route[K, A, V]
}

// match returns the first route whose query parameters are all in r, or nil.
func (e endpoint[K, A, V]) match(r *http.Request) *Route[K, A, V] {
	for _, route := range e.routes {
		_, names, _ := strings.Cut(route.On, "?")
		matches := true
		for name := range strings.SplitSeq(names, "&") {
			matches = matches && (name == "" || r.URL.Query().Has(name))
		}
		if matches {
			return route
		}
	}
	return nil
}

// ServeHTTP answers a request of the API. The answer is encoded while the state is locked.
func (e endpoint[K, A, V]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := e.server
	q := &Request[K, A, V]{HTTP: r, Header: w.Header(), Route: e.match(r), Now: s.kit.Now(), server: s}
	var answer Answer
	var body []byte
	serve := func(state *State[K, A, V]) {
		q.State = state
		if answer = s.platform.Admit(q); answer.Status == 0 && q.Route == nil {
			answer = s.platform.NotFound(q)
		} else if answer.Status == 0 {
			answer = q.Route.Serve(q)
		}
		body = answer.encode()
	}
	if r.Method == http.MethodGet {
		s.file.View(serve)
	} else if err := s.file.Do(serve); err != nil {
		s.kit.failInternally(w, err)
		return
	}
	answer.send(w, body)
}

func (s *server[K, A, V]) controlHandler() http.Handler {
	calls := map[string]func(*Request[K, A, V]) (any, error){
		"GET /suite":    func(*Request[K, A, V]) (any, error) { return s.platform.Suite, nil },
		"GET /accounts": s.listAccounts, "PUT /accounts/{address}": s.putAccount, "DELETE /accounts/{address}": s.deleteAccount,
	}
	maps.Copy(calls, s.platform.Controls)
	mux := http.NewServeMux()
	for pattern, call := range calls {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /_control"+path, func(w http.ResponseWriter, r *http.Request) {
			q := &Request[K, A, V]{HTTP: r, Header: w.Header(), Now: s.kit.Now(), server: s}
			var raw json.RawMessage
			err := s.file.Try(func(state *State[K, A, V]) error {
				q.State = state
				result, err := call(q)
				if err != nil {
					return err
				}
				if result == nil {
					result = struct{}{}
				}
				raw, err = json.Marshal(result)
				return err
			})
			answerJSON(w, raw, err)
		})
	}
	return ControlCalls(mux, nil)
}
