// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

func TestSignInPageShowsFormOrProblem(t *testing.T) {
	answer := httptest.NewRecorder()
	simulate.SignInPage{Platform: "Example", Action: "/authorize?state=a&b=c", Username: `"><script>x</script>`}.Show(answer)
	for _, part := range []string{`name="username"`, `name="decision" value="accept"`, `name="decision" value="deny"`, `formnovalidate`, `action="/authorize?state=a&amp;b=c"`, `method="post"`} {
		if !strings.Contains(answer.Body.String(), part) {
			t.Errorf("the page has no %s", part)
		}
	}
	if strings.Contains(answer.Body.String(), "<script") {
		t.Error("the page contains a script from the link")
	}
	answer = httptest.NewRecorder()
	simulate.SignInPage{Platform: "Example", Status: http.StatusGone, Problem: "too late"}.Show(answer)
	if answer.Code != http.StatusGone || strings.Contains(answer.Body.String(), "<form") || !strings.Contains(answer.Body.String(), "too late") {
		t.Errorf("the page with a problem is %d %s, want 410 with the problem and no form", answer.Code, answer.Body)
	}
}

const signInPath = "/authorize"

// memberState is the state of a simulator in which people become members by signing in.
type memberState struct {
	Serial  int                         `json:"serial"`
	Links   map[string]*simulate.SignIn `json:"links"`
	Members map[string]string           `json:"members"` // workspace by mail address
}

func (m *memberState) attach(workspace, address string, _ time.Time) { m.Members[address] = workspace }

type signInFixture struct {
	simulate.SignInLinks[memberState]
	t *testing.T
}

func newSignInFixture(t *testing.T) signInFixture {
	t.Helper()
	options := simulate.Options{URL: "http://127.0.0.1:4000", DataDir: t.TempDir(), Log: io.Discard}
	kit, file, err := simulate.OpenState("shop", "club.json", options, func(time.Time) memberState {
		return memberState{Links: map[string]*simulate.SignIn{}, Members: map[string]string{}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return signInFixture{simulate.SignInLinks[memberState]{
		Platform: "Example", Path: signInPath, Kit: kit, File: file, Attach: (*memberState).attach,
		Started: func(state *memberState) map[string]*simulate.SignIn { return state.Links },
	}, t}
}

func (f signInFixture) start(id string) (link string) {
	f.t.Helper()
	if err := f.File.Do(func(m *memberState) { link = f.Start(m, id, "first", 10*time.Minute) }); err != nil {
		f.t.Fatal(err)
	}
	return link
}

func (f signInFixture) members() (addresses []string) {
	f.File.View(func(m *memberState) { addresses = slices.Sorted(maps.Keys(m.Members)) })
	return addresses
}

// decisionForm returns the body that a browser sends for a sign-in page.
func decisionForm(username, decision string) *strings.Reader {
	return strings.NewReader(url.Values{"username": {username}, "decision": {decision}}.Encode())
}

// visit submits the form of a page and returns the status and the text of the answer. Without a
// decision, visit gets the form.
func visit(page http.Handler, link, username, decision string) (status int, text string) {
	request := httptest.NewRequest(http.MethodGet, link, nil)
	if decision != "" {
		request = httptest.NewRequest(http.MethodPost, link, decisionForm(username, decision))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

// TestSignInLinkWorksOnce checks valid, invalid, repeated and guessed uses of a link.
func TestSignInLinkWorksOnce(t *testing.T) {
	fixture := newSignInFixture(t)
	link := fixture.start("one")
	if link != "http://"+fixture.Kit.Host()+signInPath+"?client_id=shop&response_type=code&state=one" {
		t.Errorf("the link is %s, want the page with the state one", link)
	}
	if status, page := visit(fixture, link, "", ""); status != http.StatusOK || !strings.Contains(page, `name="username" type="text" value=""`) {
		t.Errorf("the page is %d %s, want 200 with an empty username", status, page)
	}
	for username, decision := range map[string]string{"": "accept", "nobody": "accept", "Bob <bob@a.example>": "accept", "bob@a.example": "postpone"} {
		status, page := visit(fixture, link, username, decision)
		if status != http.StatusBadRequest || !strings.Contains(page, `role="alert"`) || !strings.Contains(page, "<form") {
			t.Errorf("%q, %s: %d %s, want 400 with an alert and the form", username, decision, status, page)
		}
	}
	if status, page := visit(fixture, link, " bob@a.example ", "accept"); status != http.StatusOK || strings.Contains(page, "<form") {
		t.Errorf("an accepted sign-in: %d %s, want 200 without the form", status, page)
	}
	if status, page := visit(fixture, link, "carl@a.example", "accept"); status != http.StatusBadRequest || !strings.Contains(page, "used already") {
		t.Errorf("a second sign-in with the link: %d %s, want 400 with \"used already\"", status, page)
	}
	if status, page := visit(fixture, fixture.start("two"), "", "deny"); status != http.StatusOK || !strings.Contains(page, "declined") {
		t.Errorf("a declined sign-in: %d %s, want 200 with \"declined\"", status, page)
	}
	if status, page := visit(fixture, signInPath+"?state=guessed", "carl@a.example", "accept"); status != http.StatusBadRequest || !strings.Contains(page, "This link is unknown") {
		t.Errorf("a guessed link: %d %s, want 400 with \"This link is unknown\"", status, page)
	}
	if members := fixture.members(); !slices.Equal(members, []string{"bob@a.example"}) {
		t.Errorf("the members are %v, want only bob@a.example", members)
	}
}

// bodyWithHook is a request body that calls beforeRead before each read.
type bodyWithHook struct {
	io.Reader
	beforeRead func()
}

func (b bodyWithHook) Read(p []byte) (int, error) {
	b.beforeRead()
	return b.Reader.Read(p)
}

// TestSignInLinkConnectsOnceWhenSubmittedTwice submits the form of a link while the server still
// reads an earlier submission. The later submission is faster: it connects its mailbox, and the
// earlier submission fails.
func TestSignInLinkConnectsOnceWhenSubmittedTwice(t *testing.T) {
	for _, decision := range []string{"accept", "deny"} {
		t.Run(decision, func(t *testing.T) {
			fixture := newSignInFixture(t)
			link := fixture.start("one")
			request := httptest.NewRequest(http.MethodPost, link, bodyWithHook{decisionForm("carl@a.example", decision), sync.OnceFunc(func() {
				if status, page := visit(fixture, link, "bob@a.example", "accept"); status != http.StatusOK || strings.Contains(page, `role="alert"`) {
					t.Errorf("the faster submission: %d %s, want 200 without an alert", status, page)
				}
			})})
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			answer := httptest.NewRecorder()
			fixture.ServeHTTP(answer, request)
			if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "used already") {
				t.Errorf("the slower submission: %d %s, want 400 with \"used already\"", answer.Code, answer.Body)
			}
			if members := fixture.members(); !slices.Equal(members, []string{"bob@a.example"}) {
				t.Errorf("the members are %v, want only bob@a.example", members)
			}
		})
	}
}

// TestSignInLinkExpires checks that a link expires by the simulated clock.
func TestSignInLinkExpires(t *testing.T) {
	fixture := newSignInFixture(t)
	link := fixture.start("one")
	controlHandler := fixture.Kit.Handler(&fakeProvider{}, nil)
	for elapsed, want := range map[time.Duration]int{9 * time.Minute: http.StatusOK, 10 * time.Minute: http.StatusBadRequest} {
		answer := httptest.NewRecorder()
		now := time.Now().Add(elapsed).Format(time.RFC3339Nano)
		controlHandler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/_control/clock", strings.NewReader(`{"now":"`+now+`"}`)))
		if answer.Code != http.StatusOK {
			t.Fatalf("setting the clock: %d %s, want 200", answer.Code, answer.Body)
		}
		if status, page := visit(fixture, link, "", ""); status != want {
			t.Errorf("%s after the start: %d %s, want %d", elapsed, status, page, want)
		}
	}
}

func TestConnectPageConnectsAfterAccept(t *testing.T) {
	var connected []string
	page := simulate.ConnectPage{Platform: "Example", Path: "/connect", Connect: func(address string) error {
		if address == "broken@a.example" {
			return errors.New("the disk is full")
		}
		connected = append(connected, address)
		return nil
	}}
	if status, text := visit(page, "/connect?username=anna@a.example", "", ""); status != http.StatusOK || !strings.Contains(text, `value="anna@a.example"`) {
		t.Errorf("the page is %d %s, want 200 with the address of the link", status, text)
	}
	for _, tc := range []struct {
		username, decision string
		status             int
	}{
		{"anna@a.example", "deny", http.StatusOK}, {"nobody", "accept", http.StatusBadRequest}, {"bob@a.example", "accept", http.StatusOK},
		{"broken@a.example", "accept", http.StatusInternalServerError},
	} {
		if status, text := visit(page, "/connect", tc.username, tc.decision); status != tc.status {
			t.Errorf("the username %s with %s: %d %s, want %d", tc.username, tc.decision, status, text, tc.status)
		}
	}
	if !slices.Equal(connected, []string{"bob@a.example"}) {
		t.Errorf("connected are %v, want only bob@a.example", connected)
	}
}
