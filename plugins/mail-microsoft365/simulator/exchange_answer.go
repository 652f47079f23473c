// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer writes the envelope of a cmdlet.
func (in *invocation) answer(w http.ResponseWriter, out outcome) {
	var size int
	var links string
	in.file.View(func(t *tenant) { size, links = t.Behaviour.PageSize, t.Behaviour.NextLink })
	from := skipped(in.r.URL.Query().Get("$skiptoken"))
	if from > 0 && links == "expired" {
		out = outcome{failed: errPaging.of("")}
	}
	if out.failed != nil {
		writeExchange(w, cmp.Or(out.status, http.StatusBadRequest), out.failed.envelope())
		return
	}
	from = min(from, len(out.rows))
	to := min(from+min(size, preferredSize(in.r)), len(out.rows))
	if out.whole {
		from, to = 0, len(out.rows)
	}
	body := object{}
	if to < len(out.rows) {
		body["@odata.nextLink"] = in.nextLink(to)
		out.warnings = append(out.warnings, "There are more results available than are currently displayed.")
	}
	values := []object{}
	for _, row := range out.rows[from:to] {
		values = append(values, withSidecars(picked(row, selectedOf(in.r))))
	}
	body["@odata.context"] = in.s.kit.URL + exchangeHost + "/adminapi/beta/" + in.r.PathValue("tenant") +
		"/$metadata#Collection(Exchange.GenericHashTable)"
	body["adminapi.warnings@odata.type"] = "#Collection(String)"
	body["@adminapi.warnings"] = append([]string{}, out.warnings...)
	body["value"] = values
	if out.errors != nil {
		body["@adminapi.errors"] = out.errors
	}
	writeExchange(w, http.StatusOK, body)
}

func (in *invocation) nextLink(from int) string {
	q := in.r.URL.Query()
	q.Set("$skiptoken", "RFNwdAIAAQ"+base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(from))))
	return in.s.kit.URL + exchangeHost + in.r.URL.Path + "?" + readable(q)
}

// preferredSize reads Prefer: odata.maxpagesize=N.
func preferredSize(r *http.Request) int {
	for _, part := range strings.Split(r.Header.Get("Prefer"), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(part), "odata.maxpagesize="); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return n
			}
		}
	}
	return 1000
}

func selectedOf(r *http.Request) []string {
	if text := r.URL.Query().Get("$select"); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// withSidecars adds the members that tell the .NET type of a property.
func withSidecars(row object) object {
	out := object{}
	for name, v := range row {
		switch value := v.(type) {
		case time.Time:
			out[name+"@data.type"] = "System.DateTime"
			v = value.Format("2006-01-02T15:04:05.0000000-07:00")
		case int:
			out[name+"@data.type"] = "System.Int32"
		case []string:
			out[name+"@odata.type"] = "#Collection(String)"
		}
		out[name] = v
	}
	return out
}

// unchanged is the warning of a Set- cmdlet that had nothing to change.
func unchanged(of string) outcome {
	return outcome{warnings: []string{fmt.Sprintf(
		"The command completed successfully but no settings of '%s' have been modified.", of)}}
}
