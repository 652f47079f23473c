// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of a Platform, which is saved in one file.
type State[K, A, V any] struct {
	Serial   int                `json:"serial"`
	Keys     map[string]K       `json:"keys"`     // keyed by the text of the API key
	Accounts []*Account[A]      `json:"accounts"` // in the order of creation
	SignIns  map[string]*SignIn `json:"sign_ins"` // keyed by the parameter `state` of their links
	Vendor   V                  `json:"vendor"`   // the state that only this platform has
}

// Account is a mailbox that is connected to a workspace of a Platform.
type Account[A any] struct {
	Workspace string    `json:"workspace"`
	Address   string    `json:"address"`
	VisibleAt time.Time `json:"visible_at"` // when the API begins to show the account
	Doc       A         `json:"doc"`
}

// withMaps returns the state with empty maps instead of nil maps.
func (s State[K, A, V]) withMaps() State[K, A, V] {
	if s.Keys == nil {
		s.Keys = map[string]K{}
	}
	if s.SignIns == nil {
		s.SignIns = map[string]*SignIn{}
	}
	return s
}

// NextSerial returns a number that no earlier call has returned.
func (s *State[K, A, V]) NextSerial() int {
	s.Serial++
	return s.Serial
}

// Find returns the account of an address in a workspace, or nil. An empty workspace stands for all
// workspaces.
func (s *State[K, A, V]) Find(workspace, address string) *Account[A] {
	for _, a := range s.Accounts {
		if a.matches(workspace, address) {
			return a
		}
	}
	return nil
}

func (a *Account[A]) matches(workspace, address string) bool {
	return (workspace == "" || a.Workspace == workspace) && strings.EqualFold(a.Address, address)
}

// Remove removes the accounts of an address in a workspace, and reports whether it removed an
// account.
func (s *State[K, A, V]) Remove(workspace, address string) bool {
	before := len(s.Accounts)
	s.Accounts = slices.DeleteFunc(s.Accounts, func(a *Account[A]) bool { return a.matches(workspace, address) })
	return len(s.Accounts) < before
}

// Request is a request to a Platform: an API request, a control call, or a finished sign-in. For a
// sign-in, HTTP, Header and Route are nil.
type Request[K, A, V any] struct {
	HTTP   *http.Request
	Header http.Header     // the header of the answer
	Route  *Route[K, A, V] // nil for a control call, and if no route matches
	Key    K               // the data of the caller's API key, set by Platform.Admit
	// Workspace is the workspace that the caller uses. Platform.Admit sets it if the routes need
	// it.
	Workspace string
	State     *State[K, A, V] // valid only during the call
	Now       time.Time       // the simulated time
	server    *server[K, A, V]
}

// Path returns the part of the path that matches the wildcard {name} of the route or control call.
func (q *Request[K, A, V]) Path(name string) string { return q.HTTP.PathValue(name) }

// Query returns a query parameter.
func (q *Request[K, A, V]) Query(name string) string { return q.HTTP.URL.Query().Get(name) }

// Number returns a query parameter that is a number of at least 0. It returns fallback if the
// parameter is missing or empty. ok is false if the parameter has a different value.
func (q *Request[K, A, V]) Number(name string, fallback int) (n int, ok bool) {
	text := q.Query(name)
	if text == "" {
		return fallback, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// Decode decodes the body of an API request, and ignores unknown members.
func (q *Request[K, A, V]) Decode(into any) error {
	return json.NewDecoder(q.HTTP.Body).Decode(into)
}

// Read decodes the body of a control call like ReadBody.
func (q *Request[K, A, V]) Read(into any) error { return ReadBody(q.HTTP, into) }

// Count is Kit.Count, so now must be time.Now() and not Request.Now.
func (q *Request[K, A, V]) Count(counter string, now time.Time, rates ...Rate) Usage {
	return q.server.kit.Count(counter, now, rates...)
}

// RetryAfter sets the header Retry-After and returns its value in seconds.
func (q *Request[K, A, V]) RetryAfter(wait time.Duration) (seconds int) {
	seconds = int((wait + time.Second - 1) / time.Second)
	q.Header.Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// Visible returns the accounts of a workspace that the API shows now, in the order of their
// creation.
func (q *Request[K, A, V]) Visible(workspace string) (docs []*A) {
	for _, a := range q.State.Accounts {
		if a.Workspace == workspace && !a.VisibleAt.After(q.Now) {
			docs = append(docs, &a.Doc)
		}
	}
	return docs
}

// Account returns the account of an address in a workspace, so that the caller can change it. If
// the account does not exist, Account creates it with Platform.NewAccount. The API shows a new
// account only after the duration lag. For an existing account, Account calls Platform.Touch.
func (q *Request[K, A, V]) Account(workspace, address string, lag time.Duration) *A {
	account := q.State.Find(workspace, address)
	if account == nil {
		account = &Account[A]{Workspace: workspace, Address: address, Doc: q.server.platform.NewAccount(q, workspace, address)}
		if lag > 0 {
			account.VisibleAt = q.Now.Add(lag)
		}
		q.State.Accounts = append(q.State.Accounts, account)
		return &account.Doc
	}
	q.server.platform.Touch(&account.Doc, q.Now)
	return &account.Doc
}

// StartSignIn stores a sign-in that expires after lifetime. It returns the link to the sign-in
// page, and the link's parameter `state`, which is the key of the sign-in in State.SignIns.
func (q *Request[K, A, V]) StartSignIn(workspace string, lifetime time.Duration) (state, link string) {
	state = rand.Text()
	return state, q.server.signIns.Start(q.State, state, workspace, lifetime)
}

// PutKey implements a control call "PUT /keys/{key}" that creates or replaces a key.
func (q *Request[K, A, V]) PutKey() (any, error) {
	var key K
	if q.server.platform.NewKey != nil {
		key = q.server.platform.NewKey()
	}
	err := q.Read(&key)
	q.State.Keys[q.Path("key")] = key
	return nil, err
}

// DeleteKey implements a control call "DELETE /keys/{key}" that deletes a key.
func (q *Request[K, A, V]) DeleteKey() (any, error) {
	delete(q.State.Keys, q.Path("key"))
	return nil, nil
}

// workspace returns the workspace that a control call sees, or "" for all workspaces.
func (q *Request[K, A, V]) workspace() string {
	if q.server.platform.WorkspaceOf != nil {
		return ""
	}
	return cmp.Or(q.Query("workspace_id"), q.server.platform.Workspace)
}

func (s *server[K, A, V]) listAccounts(q *Request[K, A, V]) (any, error) {
	docs := []A{}
	for _, a := range q.State.Accounts {
		if workspace := q.workspace(); workspace == "" || a.Workspace == workspace {
			docs = append(docs, a.Doc)
		}
	}
	return docs, nil
}

// putAccount creates an account if it does not exist, and then sets the members that the body
// contains.
func (s *server[K, A, V]) putAccount(req *Request[K, A, V]) (any, error) {
	workspace, address := req.workspace(), req.Path("address")
	if s.platform.WorkspaceOf != nil {
		raw, err := io.ReadAll(req.HTTP.Body)
		if err != nil {
			return nil, err
		}
		req.HTTP.Body = io.NopCloser(bytes.NewReader(raw))
		var decoded A
		_ = json.Unmarshal(raw, &decoded) // Read reports the error
		workspace = s.platform.Workspace
		if number := s.platform.WorkspaceOf(&decoded); number != 0 {
			workspace = strconv.Itoa(number)
		} else if a := req.State.Find("", address); a != nil {
			workspace = a.Workspace
		}
	}
	return nil, req.Read(req.Account(workspace, address, 0))
}

func (s *server[K, A, V]) deleteAccount(q *Request[K, A, V]) (any, error) {
	if !q.State.Remove(q.workspace(), q.Path("address")) {
		return nil, NotFound("no such account")
	}
	return nil, nil
}

// Slice returns at most limit elements of all after the first skip elements. It never returns nil.
func Slice[T any](all []T, skip, limit int) []T {
	skip = min(skip, len(all))
	return append([]T{}, all[skip:min(skip+limit, len(all))]...)
}
