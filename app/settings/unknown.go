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

const (
	variablePrefix = "TENANTRY_"
	// providersSetting is the name of the field Config.Providers.
	providersSetting = "providers"
)

// VariableName returns the name of the variable that sets a setting.
func VariableName(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// isSetting reports whether key is the name of a setting. Below providers.<id>, any name without a
// dot counts as a setting, because only the plugin defines the settings of a provider.
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

// isEmptySection reports whether key is providers or providers.<id>, and value contains no setting.
// The value is nil if all settings are commented out, and an empty map for `{}`.
func isEmptySection(key string, value any) bool {
	section, isMap := value.(map[string]any)
	name, id, _ := strings.Cut(key, ".")
	return name == providersSetting && !strings.Contains(id, ".") && (value == nil || isMap && len(section) == 0)
}

// These environment variables begin with TENANTRY_ and are not settings. sandboxAndTestVariables
// lists names without the prefix: variables that the sandbox writes for shells, and variables that
// control tests. serviceLink and servicePort match variables that Kubernetes sets in containers if
// the name of a Kubernetes service is tenantry or begins with tenantry.
var (
	sandboxAndTestVariables = []string{"CONTROL", "FAILPOINTS", "KEY", "SEED", "SHOTS", "SOAK", "TENANT", "URL"}
	serviceLink             = regexp.MustCompile(`^TENANTRY_(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP)\w*)$`)
	servicePort             = regexp.MustCompile(`^TENANTRY_(\w+_)?PORT=(tcp|udp)://`)
)

// UnknownVariables returns the sorted names of the variables in environment that begin with
// TENANTRY_, set no setting, and are not one of the exceptions above. Variables that begin with
// TENANTRY_TEST_ are not unknown either.
func UnknownVariables(environment []string) []string {
	var names []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		rest, hasPrefix := strings.CutPrefix(name, variablePrefix)
		key, _ := SettingOfVariable(name, "")
		switch {
		case !hasPrefix, key != "", slices.Contains(sandboxAndTestVariables, rest), strings.HasPrefix(rest, "TEST_"):
		case serviceLink.MatchString(name), servicePort.MatchString(variable):
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// misspeltVariable returns an error for the first unknown variable of environment that was probably
// meant as a setting. Such a name is similar to the name of a setting, or begins like the settings
// of providers.
func misspeltVariable(environment []string) error {
	for _, name := range UnknownVariables(environment) {
		if strings.HasPrefix(name, VariableName(providersSetting)) {
			return Problem{name, "the variable does not name a setting of a provider; such variables have the form " +
				VariableName(providersSetting+".PROVIDER.SETTING")}
		}
		if similar := nearestSetting(keyOf(name)); similar != "" {
			return Problem{name, "there is no setting with this variable; did you mean " + VariableName(similar) + "?"}
		}
	}
	return nil
}

// WarnUnknownVariables writes a warning for each unknown variable of the environment, except
// variables that Read refuses. `tenantry serve` does not call WarnUnknownVariables, because it logs
// the unknown variables.
func WarnUnknownVariables(w io.Writer, asJSON bool) {
	for _, name := range UnknownVariables(os.Environ()) {
		if misspeltVariable([]string{name}) != nil {
			continue
		}
		message := fmt.Sprintf("the variable %s is not a setting and has no effect", name)
		if asJSON {
			_ = json.NewEncoder(w).Encode(map[string]any{"warning": map[string]string{"code": "unknown_variable", "message": message}})
			continue
		}
		_, _ = fmt.Fprintf(w, "tenantry: warning: %s\n", message)
	}
}

// keyOf returns the name of an environment variable in lower case, without the prefix TENANTRY_.
func keyOf(variable string) string {
	return strings.ToLower(strings.TrimPrefix(variable, variablePrefix))
}

// suggestion returns the end of an error message that suggests the most similar setting, or "" if
// no setting is similar.
func suggestion(key string) string {
	if similar := nearestSetting(key); similar != "" {
		return "; did you mean " + similar + "?"
	}
	return ""
}

// nearestSetting returns the name of the setting that is most similar to key, or "" if no setting
// is similar.
func nearestSetting(key string) string {
	var names []string
	for field := range Fields() {
		if field.Type.Kind() != reflect.Map {
			names = append(names, field.Tag.Get("koanf"))
		}
	}
	return Nearest(key, names)
}

// Nearest returns the name that is most similar to word, or "" when no name is similar. A name that
// begins with word and an underscore is also similar, as client_secret_file is to client_secret.
func Nearest(word string, names []string) string {
	best, maxDistance := "", 1+len(word)/4
	for _, name := range names {
		edits := editDistance(word, name)
		if word != "" && strings.HasPrefix(name, word+"_") {
			edits = min(edits, 1)
		}
		if edits <= maxDistance {
			best, maxDistance = name, edits-1
		}
	}
	return best
}

// editDistance returns the Levenshtein distance: the smallest number of bytes that must be added,
// removed or replaced to turn a into b.
func editDistance(a, b string) int {
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
