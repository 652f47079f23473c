// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// exchange is the Exchange admin endpoint, outlook.office365.com.
func (s *simulator) exchange() http.Handler {
	mux := http.NewServeMux()
	for _, version := range []string{"beta", "v1.0"} {
		mux.HandleFunc("POST /adminapi/"+version+"/{tenant}/InvokeCommand", s.invoke)
		mux.HandleFunc("GET /adminapi/"+version+"/{tenant}/EXOModuleFile", s.moduleFile)
	}
	return mux
}

// invocation is one run of a cmdlet that may be made.
type invocation struct {
	s      *simulator
	r      *http.Request
	file   *simulate.File[tenant]
	now    time.Time
	cmdlet string
	params params
}

// outcome is what a cmdlet says.
type outcome struct {
	rows     []object
	warnings []string
	errors   []string // non-terminating, with status 200
	failed   *exception
	status   int  // of a failure, 400 where it is 0
	whole    bool // the rows are not cut into pages
}

// admitExchange authenticates and authorizes a call. Exchange reads both
// grants out of the token, and the sandbox takes back at once what was
// revoked. It has answered when it returns nil.
func (s *simulator) admitExchange(w http.ResponseWriter, r *http.Request) *invocation {
	now := s.kit.Now()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims, err := s.registration().verify(token)
	if err != nil || claims["aud"] != exchangeAudience || !alive(claims, now) {
		bare(w, http.StatusUnauthorized)
		return nil
	}
	f := s.store.find(r.PathValue("tenant"))
	if f == nil {
		writeExchange(w, http.StatusNotFound, errNoTenant.of(r.PathValue("tenant")).envelope())
		return nil
	}
	status, nul := http.StatusOK, false
	f.View(func(t *tenant) {
		nul = t.Behaviour.NulForbidden
		switch {
		case claims["tid"] != t.ID,
			t.Behaviour.Deleted, t.Behaviour.AppDisabled,
			!slices.Contains(texts(claims["roles"]), exchangeManageApps), !t.Grant.has(exchangeManageApps):
			status = http.StatusUnauthorized
		case !s.mayAdminister(t, texts(claims["wids"])):
			status = http.StatusForbidden
		}
	})
	switch status {
	case http.StatusUnauthorized:
		bare(w, status)
		return nil
	case http.StatusForbidden:
		forbidden(w, nul)
		return nil
	}
	return &invocation{s: s, r: r, file: f, now: now}
}

// mayAdminister reports whether one of the directory roles in the token lets
// its holder run cmdlets, and is still held.
func (s *simulator) mayAdminister(t *tenant, wids []string) bool {
	for _, role := range []string{exchangeAdministrator, globalAdministrator} {
		if slices.Contains(wids, role) && t.holds(t.Grant.Principal, role, s.kit.Now()) {
			return true
		}
	}
	return false
}

// command is the body of InvokeCommand.
type command struct {
	CmdletInput struct {
		CmdletName string
		Parameters json.RawMessage
	}
}

// invoke answers POST InvokeCommand. The body names the cmdlet; the header
// X-CmdletName is for information only.
func (s *simulator) invoke(w http.ResponseWriter, r *http.Request) {
	in := s.admitExchange(w, r)
	if in == nil {
		return
	}
	var body command
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil {
		writeExchange(w, http.StatusBadRequest, errBadCommand.of("").envelope())
		return
	}
	in.cmdlet = body.CmdletInput.CmdletName
	work, known := cmdlets[strings.ToLower(in.cmdlet)]
	if !known {
		nul := false
		in.file.View(func(t *tenant) { nul = t.Behaviour.NulForbidden })
		forbidden(w, nul)
		return
	}
	out := outcome{}
	if in.params, out.failed = readParams(work, body.CmdletInput.Parameters); out.failed == nil {
		out = in.run(work)
	}
	in.answer(w, out)
}

// run does the work of a cmdlet, unless the tenant has it scripted.
func (in *invocation) run(work cmdlet) outcome {
	var facts map[string]bool
	if work.ask != nil {
		facts = work.ask(in) // asks the DNS, so before the tenant is locked
	}
	var out outcome
	err := in.file.Do(func(t *tenant) {
		script := t.Behaviour.script(in.cmdlet)
		switch {
		case script.Exception != nil:
			out.failed = &exception{script.Exception.ID, script.Exception.Type, script.Exception.Text}
		case script.Errors != nil:
			out.errors = script.Errors
		default:
			out = work.do(in, t, facts)
			out.warnings = append(out.warnings, script.Warnings...)
		}
	})
	if err != nil {
		out.failed = errBadCommand.of("")
	}
	return out
}

// moduleFile lists the cmdlets that the role allows.
func (s *simulator) moduleFile(w http.ResponseWriter, r *http.Request) {
	if s.admitExchange(w, r) == nil {
		return
	}
	var names []string
	for _, c := range cmdlets {
		names = append(names, c.name)
	}
	slices.Sort(names)
	writeExchange(w, http.StatusOK, object{
		"@odata.context": s.kit.URL + exchangeHost + "/adminapi/v1.0/$metadata#EXOModuleFile",
		"value":          []object{{"exportedCmdlets": strings.Join(names, ",")}},
	})
}
