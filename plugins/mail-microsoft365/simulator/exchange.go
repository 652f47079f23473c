// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// exchangeHandler returns the handler of the Exchange admin endpoint, outlook.office365.com.
func (s *simulator) exchangeHandler() http.Handler {
	mux := http.NewServeMux()
	for _, version := range []string{"beta", "v1.0"} {
		mux.HandleFunc("POST /adminapi/"+version+"/{tenant}/InvokeCommand", s.invokeCommand)
		mux.HandleFunc("GET /adminapi/"+version+"/{tenant}/EXOModuleFile", s.moduleFile)
	}
	return mux
}

// invocation is one authorized call of a cmdlet.
type invocation struct {
	s      *simulator
	r      *http.Request
	file   *simulate.File[tenant]
	now    time.Time
	cmdlet string
	params params
}

type outcome struct {
	rows     []object
	warnings []string
	errors   []string // returned in @adminapi.errors with status 200
	failure  *exception
	status   int  // the status of a failure, 0 means 400
	unpaged  bool // all rows are in one page
}

// authorizeExchange authenticates and authorizes a call. The token must contain the app role
// Exchange.ManageAsApp and a directory role that allows cmdlets. Both must still be granted. If it
// refuses the call, it writes the answer and returns nil.
func (s *simulator) authorizeExchange(w http.ResponseWriter, r *http.Request) *invocation {
	now := s.kit.Now()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims, err := s.registration().verifyToken(token)
	if err != nil || claims["aud"] != exchangeAudience || !tokenIsCurrent(claims, now) {
		writeStatus(w, http.StatusUnauthorized)
		return nil
	}
	f := s.store.find(r.PathValue("tenant"))
	if f == nil {
		writeExchange(w, http.StatusNotFound, errNoTenant.with(r.PathValue("tenant")).envelope())
		return nil
	}
	status, nulBody := http.StatusOK, false
	f.View(func(t *tenant) {
		nulBody = t.Behaviour.NulForbidden
		switch {
		case claims["tid"] != t.ID,
			t.Behaviour.Deleted, t.Behaviour.AppDisabled, t.isOfDeletedPrincipal(claims),
			!slices.Contains(stringList(claims["roles"]), exchangeManageApps), !t.Grant.hasAppRole(exchangeManageApps):
			status = http.StatusUnauthorized
		case !s.holdsExchangeRole(t, stringList(claims["wids"])):
			status = http.StatusForbidden
		}
	})
	switch status {
	case http.StatusUnauthorized:
		writeStatus(w, status)
		return nil
	case http.StatusForbidden:
		writeForbidden(w, nulBody)
		return nil
	}
	return &invocation{s: s, r: r, file: f, now: now}
}

// holdsExchangeRole reports whether the token contains a directory role that allows cmdlets, and
// the application still holds that role.
func (s *simulator) holdsExchangeRole(t *tenant, wids []string) bool {
	for _, role := range []string{exchangeAdministrator, globalAdministrator} {
		if slices.Contains(wids, role) && t.hasDirectoryRole(t.Grant.Principal, role, s.kit.Now()) {
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

// invokeCommand answers POST InvokeCommand. It ignores the header X-CmdletName: the body names the
// cmdlet.
func (s *simulator) invokeCommand(w http.ResponseWriter, r *http.Request) {
	call := s.authorizeExchange(w, r)
	if call == nil {
		return
	}
	var body command
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil {
		writeExchange(w, http.StatusBadRequest, errBadCommand.with("").envelope())
		return
	}
	call.cmdlet = body.CmdletInput.CmdletName
	cmd, exists := cmdlets[strings.ToLower(call.cmdlet)]
	if !exists {
		nulBody := false
		call.file.View(func(t *tenant) { nulBody = t.Behaviour.NulForbidden })
		writeForbidden(w, nulBody)
		return
	}
	result := outcome{}
	if call.params, result.failure = readParams(cmd, body.CmdletInput.Parameters); result.failure == nil {
		result = call.execute(cmd)
	}
	call.writeOutcome(w, result)
}

// execute executes a cmdlet, unless the tenant has a scripted exception or scripted errors for it
// (see scriptedAnswer).
func (call *invocation) execute(cmd cmdlet) outcome {
	var cnames map[string]bool
	if cmd.lookup != nil {
		cnames = cmd.lookup(call) // queries the DNS, so it must run before the tenant is locked
	}
	var result outcome
	err := call.file.Do(func(t *tenant) {
		script := t.Behaviour.nextScriptedAnswer(call.cmdlet)
		switch {
		case script.Exception != nil:
			result.failure = &exception{script.Exception.ID, script.Exception.Type, script.Exception.Text}
		case script.Errors != nil:
			result.errors = script.Errors
		default:
			result = cmd.handler(call, call.replica(cmd, t), cnames)
			t.recordSnapshot(call.now)
			result.warnings = append(result.warnings, script.Warnings...)
		}
	})
	if err != nil { // the tenant could not be saved
		return outcome{failure: errBackendTransient.with(""), status: http.StatusInternalServerError}
	}
	return result
}

// replica returns the tenant as the cmdlet sees it. A cmdlet that only reads may see an older
// state. Get-MessageTraceV2 always sees the current state: the message trace has a delay of its
// own, and the cmdlet must count its queries in the tenant.
func (call *invocation) replica(cmd cmdlet, t *tenant) *tenant {
	if !strings.HasPrefix(cmd.name, "Get-") || cmd.name == "Get-MessageTraceV2" {
		return t
	}
	_, hasIdentity := cmd.parameter("Identity") // a cmdlet without this parameter reads the only object of its kind
	isList := hasIdentity && !call.params.has("Identity")
	return t.replicaOf(t.Behaviour.ExchangeReplicas, &t.History.ExchangeReads, isList, call.now)
}

// moduleFile answers GET EXOModuleFile with the names of the cmdlets.
func (s *simulator) moduleFile(w http.ResponseWriter, r *http.Request) {
	if s.authorizeExchange(w, r) == nil {
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

// writeOutcome writes the outcome of a cmdlet: a page of rows with warnings and errors, or an
// exception.
func (call *invocation) writeOutcome(w http.ResponseWriter, result outcome) {
	var pageSize int
	var linkMode string
	call.file.View(func(t *tenant) { pageSize, linkMode = t.Behaviour.PageSize, t.Behaviour.NextLink })
	start := skipTokenOffset(call.r.URL.Query().Get("$skiptoken"))
	if start > 0 && linkMode == "expired" {
		result = outcome{failure: errPaging.with("")}
	}
	if result.failure != nil {
		writeExchange(w, cmp.Or(result.status, http.StatusBadRequest), result.failure.envelope())
		return
	}
	start = min(start, len(result.rows))
	end := min(start+min(pageSize, maxPageSize(call.r)), len(result.rows))
	if result.unpaged {
		start, end = 0, len(result.rows)
	}
	body := object{}
	if end < len(result.rows) {
		body["@odata.nextLink"] = pageLink(call.s.kit.URL+exchangeHost, call.r, end)
		result.warnings = append(result.warnings, "There are more results available than are currently displayed.")
	}
	values := []object{}
	for _, row := range result.rows[start:end] {
		values = append(values, withTypeAnnotations(selectProperties(row, selectedProperties(call.r))))
	}
	body["@odata.context"] = call.s.kit.URL + exchangeHost + "/adminapi/beta/" + call.r.PathValue("tenant") +
		"/$metadata#Collection(Exchange.GenericHashTable)"
	body["adminapi.warnings@odata.type"] = "#Collection(String)"
	body["@adminapi.warnings"] = append([]string{}, result.warnings...)
	body["value"] = values
	if result.errors != nil {
		body["@adminapi.errors"] = result.errors
	}
	writeExchange(w, http.StatusOK, body)
}

// maxPageSize returns the page size in the header "Prefer: odata.maxpagesize=N", or 1000 without
// this header.
func maxPageSize(r *http.Request) int {
	for _, element := range strings.Split(r.Header.Get("Prefer"), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(element), "odata.maxpagesize="); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return n
			}
		}
	}
	return 1000
}

// withTypeAnnotations returns a row in which times, integers and lists of strings have type
// annotations, as at Exchange.
func withTypeAnnotations(row object) object {
	result := object{}
	for name, v := range row {
		switch value := v.(type) {
		case time.Time:
			result[name+"@data.type"] = "System.DateTime"
			v = value.Format("2006-01-02T15:04:05.0000000-07:00")
		case int:
			result[name+"@data.type"] = "System.Int32"
		case []string:
			result[name+"@odata.type"] = "#Collection(String)"
		}
		result[name] = v
	}
	return result
}

// nothingModified returns the warning of a Set- cmdlet that changes nothing.
func nothingModified(identity string) outcome {
	return outcome{warnings: []string{fmt.Sprintf(
		"The command completed successfully but no settings of '%s' have been modified.", identity)}}
}
