// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

func TestChartRenders(t *testing.T) {
	t.Parallel()
	least, err := rendered(t, chartFolder, leastValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(least); got != "Deployment PodDisruptionBudget Service ServiceAccount" {
		t.Errorf("by default: %s", got)
	}
	single, err := rendered(t, chartFolder, leastValues(), object{"replicas": 1})
	if err != nil || strings.Contains(kinds(single), "PodDisruptionBudget") {
		t.Errorf("one replica could never be moved: %s (%v)", kinds(single), err)
	}
	all, err := rendered(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(all); got != "Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor" {
		t.Errorf("with everything: %s", got)
	}
	pod := kind(t, all, "Deployment").at("spec.template.spec").(map[string]any)
	checkPod(t, pod)
	if policy := fmt.Sprint(kind(t, all, "NetworkPolicy").at("spec.egress")); !strings.Contains(policy, "port:6379") {
		t.Errorf("Redis is out of reach: %s", policy)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range object(pod).objects(list) {
			checkContainer(t, c)
		}
	}
}

// checkPod holds the times against those of the code.
func checkPod(t *testing.T, pod object) {
	t.Helper()
	sees(t, pod, object{
		"automountServiceAccountToken": false, "securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532,
		"securityContext.seccompProfile.type": "RuntimeDefault",
	})
	c := pod.objects("containers")[0]
	grace, _ := pod["terminationGracePeriodSeconds"].(float64)
	if spare := time.Duration(grace)*time.Second - usualDrain(t); spare < 10*time.Second {
		t.Errorf("after the drain %s are left of the grace period", spare)
	}
	ports := map[string]float64{}
	for _, p := range c.objects("ports") {
		ports[p.text("name")], _ = p["containerPort"].(float64)
	}
	if ports["http"] != 8080 || ports["admin"] != 9090 {
		t.Errorf("ports %v", ports)
	}
	admin := common(t).ready.AdminURL
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path, _ := c.at(probe + ".httpGet.path").(string)
		if got := (client{t: t}).do("GET", admin+path, "", nil); got.status != http.StatusOK || c.at(probe+".httpGet.port") != "admin" {
			t.Errorf("%s asks port %v for %q, which answers %d", probe, c.at(probe+".httpGet.port"), path, got.status)
		}
	}
}

var (
	pinned  = regexp.MustCompile(`^[a-z0-9./-]+:[0-9][A-Za-z0-9._-]*$`)
	looksAt = regexp.MustCompile(`(?i)password|secret|token|://[^/]*:[^/]*@|PRIVATE KEY`)
)

// checkContainer: its variables are settings, its secrets are references, its
// commands exist, and it may do nothing that it need not.
func checkContainer(t *testing.T, c object) {
	t.Helper()
	sees(t, c, object{
		"securityContext.readOnlyRootFilesystem": true, "securityContext.allowPrivilegeEscalation": false, "securityContext.capabilities.drop": "[ALL]",
	})
	if !pinned.MatchString(c.text("image")) {
		t.Errorf("image %s is not pinned by a tag", c.text("image"))
	}
	for _, v := range c.objects("env") {
		name, value := v.text("name"), v.text("value")
		if strings.HasPrefix(name, "TENANTRY_") {
			if key, _ := settings.FromVariable(name, value); key == "" {
				t.Errorf("%s is no setting", name)
			}
		}
		byReference := map[string]string{"TENANTRY_DATABASE_URL": "tenantry-database", "TENANTRY_REDIS_URL": "tenantry-redis"}[name]
		if looksAt.MatchString(value) || byReference != "" && v.at("valueFrom.secretKeyRef.name") != byReference {
			t.Errorf("%s holds a secret in clear", name)
		}
	}
	mounted := map[string]bool{}
	for _, m := range c.objects("volumeMounts") {
		mounted[m.text("mountPath")] = true
	}
	if !mounted["/tmp"] || !mounted["/etc/tenantry/keyset"] || !mounted["/etc/tenantry/microsoft365"] {
		t.Errorf("%s mounts %v", c.text("name"), mounted)
	}
	args, _ := c["args"].([]any)
	if cmd, _, err := command.Root().Find([]string{fmt.Sprint(args[0])}); err != nil || cmd.Name() != args[0] {
		t.Errorf("%s runs %v, which is no command", c.text("name"), args)
	}
}

// TestChartHidesTheAdminListener: what an ingress can reach has no metrics.
func TestChartHidesTheAdminListener(t *testing.T) {
	t.Parallel()
	objects, err := rendered(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.text("kind") != "Service" {
			continue
		}
		spec := object(o["spec"].(map[string]any))
		for _, p := range spec.objects("ports") {
			if p["targetPort"] != "http" && spec["clusterIP"] != "None" {
				t.Errorf("a Service shows %v", p)
			}
		}
	}
	monitor := kind(t, objects, "ServiceMonitor")
	if got := fmt.Sprint(monitor.at("spec.endpoints")); got != "[map[interval:30s path:/metrics port:admin]]" {
		t.Errorf("the monitor reads %s", got)
	}
}

// TestChartRefusesNonsense: the schema of the values speaks before the cluster
// does, and a field that Kubernetes does not know is noticed.
func TestChartRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]object{
		"nothing is set":        nil,
		"plain HTTP":            {"publicURL": "http://api.tenantry.example"},
		"a path":                {"publicURL": "https://api.tenantry.example/"},
		"no database":           {"database": object{"existingSecret": ""}},
		"no certificate":        {"microsoft365": object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333"}},
		"latest":                {"image": object{"tag": "latest"}},
		"a secret as a setting": {"settings": object{"database_url": "postgres://u:p@h/d"}},
		"another":               {"settings": object{"redis_url": "redis://:p@h/0"}},
		"a secret in telemetry": {"telemetry": object{"OTEL_EXPORTER_OTLP_HEADERS": "k=v"}},
		"misspelt":              {"replicaCount": 3},
	} {
		values := []object{leastValues(), wrong}
		if wrong == nil {
			values = nil
		}
		if _, err := rendered(t, chartFolder, values...); err == nil {
			t.Errorf("taken: %s", name)
		}
	}
	planted := t.TempDir()
	if err := os.CopyFS(planted, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(planted, "templates", "deployment.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "  replicas:", "  replica:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rendered(t, planted, leastValues()); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a misspelt field: %v", err)
	}
}
