// SPDX-License-Identifier: Apache-2.0

package settings

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

// VariableName returns the name of the variable that sets a setting.
func VariableName(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// isSetting reports whether key is the name of a setting. Any name is accepted below providers.<id>,
// because only the plugin knows the settings of a provider.
func isSetting(key string) bool {
	for field := range Fields() {
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

// These variables begin with TENANTRY_ and are not settings. The sandbox writes some of them for
// shells, and others control tests. Kubernetes sets the rest in every container, for a service named
// tenantry.
var (
	otherVariables = []string{"CONTROL", "FAILPOINTS", "KEY", "SEED", "SHOTS", "SOAK", "TENANT", "URL"}
	serviceLink    = regexp.MustCompile(`^TENANTRY_(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP)\w*)$`)
	servicePort    = regexp.MustCompile(`^TENANTRY_(\w+_)?PORT=(tcp|udp)://`)
)

// UnknownVariables returns the names of the variables in environment that begin with TENANTRY_ and
// are not known.
func UnknownVariables(environment []string) []string {
	var names []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		rest, hasPrefix := strings.CutPrefix(name, variablePrefix)
		key, _ := FromVariable(name, "")
		switch {
		case !hasPrefix, key != "", slices.Contains(otherVariables, rest), strings.HasPrefix(rest, "TEST_"):
		case serviceLink.MatchString(name), servicePort.MatchString(variable):
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// WarnUnknownVariables writes a warning for each unknown variable of the environment. An unknown
// variable is not an error, because a newer release may know it. `tenantry serve` logs the warning instead.
func WarnUnknownVariables(w io.Writer, asJSON bool) {
	for _, name := range UnknownVariables(os.Environ()) {
		message := fmt.Sprintf("the variable %s is not a setting and has no effect%s", name, suggestedVariable(name))
		if asJSON {
			_ = json.NewEncoder(w).Encode(map[string]any{"warning": map[string]string{"code": "unknown_variable", "message": message}})
			continue
		}
		_, _ = fmt.Fprintf(w, "tenantry: warning: %s\n", message)
	}
}

// suggestedVariable returns the end of an error message that suggests the most similar variable.
func suggestedVariable(name string) string {
	if near := nearest(strings.ToLower(strings.TrimPrefix(name, variablePrefix))); near != "" {
		return "; did you mean " + VariableName(near) + "?"
	}
	return ""
}

// suggestion returns the end of an error message that suggests the most similar setting.
func suggestion(key string) string {
	if near := nearest(key); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest returns the name of the setting that is most similar to key, or "" when no name is similar.
func nearest(key string) string {
	best, maxDistance := "", 1+len(key)/4
	for field := range Fields() {
		name := field.Tag.Get("koanf")
		if d := distance(key, name); d <= maxDistance && field.Type.Kind() != reflect.Map {
			best, maxDistance = name, d-1
		}
	}
	return best
}

// distance returns the Levenshtein distance: how many letters must be added, removed or replaced to
// turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, replaced)
		}
	}
	return row[len(b)]
}
