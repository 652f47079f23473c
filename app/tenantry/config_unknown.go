// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const variablePrefix = "TENANTRY_"

func variableName(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// known reports whether a key of the settings file is a setting. Which
// settings a provider has only its plugin knows: `tenantry config` asks it.
func known(key string) bool {
	for field := range fields() {
		name := field.Tag.Get("koanf")
		if field.Type.Kind() == reflect.Map && strings.HasPrefix(key, name+".") {
			return strings.Count(key, ".") == 2
		}
		if key == name {
			return field.Type.Kind() != reflect.Map
		}
	}
	return false
}

// Variables that begin like ours and are none: what the sandbox writes for
// shells, what switches our tests, and what Kubernetes sets in every container
// for a service with our name.
var (
	otherVariables = []string{"CONTROL", "FAILPOINTS", "KEY", "SEED", "SHOTS", "SOAK", "TENANT", "URL"}
	serviceLink    = regexp.MustCompile(`^TENANTRY_(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP)\w*)$`)
	servicePort    = regexp.MustCompile(`^TENANTRY_(\w+_)?PORT=(tcp|udp)://`)
)

// strangers lists the variables that look like settings and are none.
func strangers(environment []string) []string {
	var names []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, variablePrefix)
		key, _ := setting(name, "")
		switch {
		case !ours, key != "", slices.Contains(otherVariables, rest), strings.HasPrefix(rest, "TEST_"):
		case serviceLink.MatchString(name), servicePort.MatchString(variable):
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// warn tells of variables that are no settings. The environment is not ours
// alone, and an older binary may meet a newer one's variables, so they are no
// error; but a misspelt one must not pass unseen. The service says it in its
// log instead.
func warn(w io.Writer, asJSON bool) {
	for _, name := range strangers(os.Environ()) {
		message := fmt.Sprintf("the variable %s is no setting and has no effect%s", name, meantVariable(name))
		if asJSON {
			_ = json.NewEncoder(w).Encode(map[string]any{"warning": map[string]string{"code": "unknown_variable", "message": message}})
			continue
		}
		_, _ = fmt.Fprintf(w, "tenantry: warning: %s\n", message)
	}
}

func meantVariable(name string) string {
	if near := nearest(strings.ToLower(strings.TrimPrefix(name, variablePrefix))); near != "" {
		return "; did you mean " + variableName(near) + "?"
	}
	return ""
}

func meant(key string) string {
	if near := nearest(key); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest is the setting whose name differs least from key, "" when none is
// near.
func nearest(key string) string {
	best, at := "", 1+len(key)/4
	for field := range fields() {
		name := field.Tag.Get("koanf")
		if d := distance(key, name); d <= at && field.Type.Kind() != reflect.Map {
			best, at = name, d-1
		}
	}
	return best
}

// distance is how many letters have to be added, left out or replaced to turn
// a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, replaced)
		}
	}
	return row[len(b)]
}
