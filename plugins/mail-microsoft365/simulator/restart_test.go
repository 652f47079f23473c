// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// childDir makes this test binary serve a simulator instead of running tests.
const childDir = "TEST_SIMULATOR_DATA"

func TestMain(main *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := serveChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(main.Run())
}

func serveChild(dir string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler, ready, err := simulator.New(simulate.Options{URL: "http://" + listener.Addr().String(), DataDir: dir,
		World: os.Getenv("TEST_WORLD"), Log: os.Stderr})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// spawn starts a simulator in a process of its own and returns how to kill it.
func spawn(t *testing.T, dir string, w *world) (*sim, func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), childDir+"="+dir, "TEST_WORLD="+w.url)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := &sim{t: t, world: w, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if err := json.Unmarshal(line, &s.ready); err != nil {
		t.Fatal(err)
	}
	return s, func() {
		_ = command.Process.Kill() // SIGKILL
		_ = command.Wait()
	}
}

// TestSurvivesSIGKILL kills the simulator while it holds an answer back after
// the effect. Started again it has the mailbox, the journal with the call in
// it, the planned faults, the keys that signed the old tokens and the clock.
func TestSurvivesSIGKILL(t *testing.T) {
	dir, w := t.TempDir(), newWorld(t)
	s, kill := spawn(t, dir, w)
	defer kill()
	tn := s.connected(m{"name": "Fabrikam Outreach"})
	tn.addDomain(domain)
	s.control("POST", "/clock", m{"advance": "20m"})
	header := bearer(tn.token(exchangeScope))
	s.fault(m{"kind": "delay_after", "delay_ms": 600_000, "times": 1, "operation": "New-Mailbox"})
	s.fault(m{"kind": "status", "status": 503, "times": 1, "operation": "Set-Mailbox"})

	given := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.ready.Settings["exchange_url"]+"/adminapi/beta/"+tn.id+"/InvokeCommand",
			strings.NewReader(`{"CmdletInput":{"CmdletName":"New-Mailbox","Parameters":{"Shared":true,"Name":"a@`+domain+`","Alias":"a.d","PrimarySmtpAddress":"a@`+domain+`"}}}`))
		if err != nil {
			given <- err
			return
		}
		req.Header = header
		resp, err := s.http.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		given <- err
	}()
	for done := false; !done; {
		last := s.lastCall()
		done = last.Operation == "New-Mailbox" && last.Status == http.StatusOK
	}
	kill()
	if err := <-given; err == nil {
		t.Fatal("the answer was not held back")
	}

	again, stop := spawn(t, dir, w)
	defer stop()
	if got := again.ready.Settings["client_id"]; got != s.ready.Settings["client_id"] || again.ready.Secrets["client_secret"] != s.ready.Secrets["client_secret"] {
		t.Errorf("the application changed: %s", got)
	}
	if last := again.lastCall(); last.Operation != "New-Mailbox" || last.Status != http.StatusOK || !last.Write {
		t.Errorf("the journal ends with %+v", last)
	}
	tn.sim = again
	if a := tn.exchangeWith(header, "", "Get-Mailbox", m{"Identity": "a@" + domain}); a.status != http.StatusOK {
		t.Errorf("the mailbox, asked with a token from before: %d %s", a.status, a.raw)
	}
	if a := tn.exchangeWith(header, "", "Set-Mailbox", m{"Identity": "a@" + domain, "DisplayName": "x"}); a.status != http.StatusServiceUnavailable {
		t.Errorf("the planned fault: %d", a.status)
	}
}

// lastCall is the newest entry of the journal.
func (s *sim) lastCall() simulate.Entry {
	s.t.Helper()
	var calls []simulate.Entry
	if err := json.Unmarshal(s.control("GET", "/calls", nil).raw, &calls); err != nil || len(calls) == 0 {
		s.t.Fatalf("%v, %d calls", err, len(calls))
	}
	return calls[len(calls)-1]
}
