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
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const hall = "/authorize"

// club is the state of a platform of which people become members by signing in.
type club struct {
	Serial  int                         `json:"serial"`
	Links   map[string]*simulate.SignIn `json:"links"`
	Members map[string]string           `json:"members"` // where, by address
}

func (c *club) attach(in, address string, _ time.Time) { c.Members[address] = in }

type door struct {
	simulate.SignIns[club]
	t *testing.T
}

func openDoor(t *testing.T) door {
	t.Helper()
	o := simulate.Options{URL: "http://127.0.0.1:4000", DataDir: t.TempDir(), Log: io.Discard}
	kit, file, err := simulate.OpenState("shop", "club.json", o, func(time.Time) club {
		return club{Links: map[string]*simulate.SignIn{}, Members: map[string]string{}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return door{simulate.SignIns[club]{
		Platform: "Example", Path: hall, Kit: kit, File: file, Attach: (*club).attach,
		Started: func(c *club) map[string]*simulate.SignIn { return c.Links },
	}, t}
}

func (d door) start(id string) (link string) {
	d.t.Helper()
	if err := d.File.Do(func(c *club) { link = d.Start(c, id, "first", 10*time.Minute) }); err != nil {
		d.t.Fatal(err)
	}
	return link
}

func (d door) members() (all []string) {
	d.File.View(func(c *club) { all = slices.Sorted(maps.Keys(c.Members)) })
	return all
}

func form(username, decision string) *strings.Reader {
	return strings.NewReader(url.Values{"username": {username}, "decision": {decision}}.Encode())
}

// asked is what a page answers: to an empty decision the form.
func asked(page http.Handler, link, username, decision string) (status int, text string) {
	request := httptest.NewRequest(http.MethodGet, link, nil)
	if decision != "" {
		request = httptest.NewRequest(http.MethodPost, link, form(username, decision))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	out := httptest.NewRecorder()
	page.ServeHTTP(out, request)
	return out.Code, out.Body.String()
}

// TestSignIns: a link works once, until it ends, for whoever signs in.
func TestSignIns(t *testing.T) {
	d := openDoor(t)
	link := d.start("one")
	if link != "http://"+d.Kit.Host()+hall+"?client_id=shop&response_type=code&state=one" {
		t.Errorf("the link is %s", link)
	}
	if status, page := asked(d, link, "", ""); status != http.StatusOK || !strings.Contains(page, `name="username" type="text" value=""`) {
		t.Errorf("%d %s", status, page)
	}
	for username, decision := range map[string]string{"": "accept", "nobody": "accept", "Bob <bob@a.example>": "accept", "bob@a.example": "postpone"} {
		status, page := asked(d, link, username, decision)
		if status != http.StatusBadRequest || !strings.Contains(page, `role="alert"`) || !strings.Contains(page, "<form") {
			t.Errorf("%q, %s: %d %s", username, decision, status, page)
		}
	}
	if status, page := asked(d, link, " bob@a.example ", "accept"); status != http.StatusOK || strings.Contains(page, "<form") {
		t.Errorf("accepted: %d %s", status, page)
	}
	if status, page := asked(d, link, "carl@a.example", "accept"); status != http.StatusBadRequest || !strings.Contains(page, "used already") {
		t.Errorf("a second time: %d %s", status, page)
	}
	if status, page := asked(d, d.start("two"), "", "deny"); status != http.StatusOK || !strings.Contains(page, "declined") {
		t.Errorf("declined: %d %s", status, page)
	}
	if status, page := asked(d, hall+"?state=guessed", "carl@a.example", "accept"); status != http.StatusBadRequest || !strings.Contains(page, "not one of ours") {
		t.Errorf("a guess: %d %s", status, page)
	}
	if all := d.members(); !slices.Equal(all, []string{"bob@a.example"}) {
		t.Errorf("members: %v", all)
	}
}

// TestSignInsEnd by the simulated clock.
func TestSignInsEnd(t *testing.T) {
	d := openDoor(t)
	link := d.start("one")
	clock := d.Kit.Handler(&shop{}, nil)
	for later, want := range map[time.Duration]int{9 * time.Minute: http.StatusOK, 10 * time.Minute: http.StatusBadRequest} {
		out := httptest.NewRecorder()
		now := time.Now().Add(later).Format(time.RFC3339Nano)
		clock.ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/_control/clock", strings.NewReader(`{"now":"`+now+`"}`)))
		if out.Code != http.StatusOK {
			t.Fatalf("%d %s", out.Code, out.Body)
		}
		if status, page := asked(d, link, "", ""); status != want {
			t.Errorf("after %s: %d %s", later, status, page)
		}
	}
}

// TestConnectPage: somebody connects a mailbox by hand, or does not.
func TestConnectPage(t *testing.T) {
	var connected []string
	page := simulate.ConnectPage{Platform: "Example", Path: "/connect", Connect: func(address string) error {
		if address == "broken@a.example" {
			return errors.New("the disk is full")
		}
		connected = append(connected, address)
		return nil
	}}
	if status, text := asked(page, "/connect?username=anna@a.example", "", ""); status != http.StatusOK || !strings.Contains(text, `value="anna@a.example"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, tt := range []struct {
		username, decision string
		status             int
	}{
		{"anna@a.example", "deny", http.StatusOK}, {"nobody", "accept", http.StatusBadRequest}, {"bob@a.example", "accept", http.StatusOK},
		{"broken@a.example", "accept", http.StatusInternalServerError},
	} {
		if status, text := asked(page, "/connect", tt.username, tt.decision); status != tt.status {
			t.Errorf("%s, %s: %d %s", tt.username, tt.decision, status, text)
		}
	}
	if !slices.Equal(connected, []string{"bob@a.example"}) {
		t.Errorf("connected: %v", connected)
	}
}
