import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;

/** fabric8's client, against the server that KUBECONFIG names. It watches by WebSocket. */
public class Client {
    static final String SPACE = "java";

    static void say(String text) {
        System.out.println("   " + text);
    }

    static void expect(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", got " + found);
        }
    }

    static void eventually(String what, BooleanSupplier holds) throws InterruptedException {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("within 30 seconds it did not come true that " + what);
            }
            Thread.sleep(20);
        }
    }

    static ConfigMap map(String name) {
        return new ConfigMapBuilder().withNewMetadata().withName(name).withNamespace(SPACE).endMetadata()
                .addToData("k", "1").build();
    }

    static void writes(KubernetesClient client) {
        say("create, edit, conflict, apply, delete");
        ConfigMap stale = client.resource(map("thing")).create();
        client.configMaps().inNamespace(SPACE).withName("thing").edit(
                found -> new ConfigMapBuilder(found).addToData("k", "2").build());
        stale.setData(Map.of("k", "stale"));
        try {
            client.resource(stale).lockResourceVersion().update();
            throw new AssertionError("a stale write was accepted");
        } catch (KubernetesClientException refusal) {
            expect(refusal.getCode(), 409);
        }
        ConfigMap applied = client.resource(map("applied")).fieldManager("java").serverSideApply();
        expect(applied.getMetadata().getManagedFields().get(0).getOperation(), "Apply");
        client.configMaps().inNamespace(SPACE).withName("thing").delete();
        expect(client.configMaps().inNamespace(SPACE).withName("thing").get() == null, true);
    }

    /** WIRE-93. */
    static void watches(KubernetesClient client) throws InterruptedException {
        say("watch");
        List<String> seen = new CopyOnWriteArrayList<>();
        var watch = client.configMaps().inNamespace(SPACE).watch(new Watcher<ConfigMap>() {
            @Override
            public void eventReceived(Action action, ConfigMap object) {
                seen.add(action + " " + object.getMetadata().getName());
            }

            @Override
            public void onClose(WatcherException cause) {
                seen.add("closed " + cause);
            }
        });
        client.resource(map("watched")).create();
        client.configMaps().inNamespace(SPACE).withName("watched").delete();
        eventually("all is seen", () -> seen.contains("DELETED watched"));
        expect(seen.stream().filter(line -> line.endsWith("watched")).toList(),
                List.of("ADDED watched", "DELETED watched"));
        expect(seen.stream().filter(line -> line.startsWith("closed")).toList(), List.of());
        watch.close();
    }

    static void informers(KubernetesClient client) throws InterruptedException {
        say("informer");
        List<String> told = new CopyOnWriteArrayList<>();
        var informer = client.configMaps().inNamespace(SPACE).inform(new ResourceEventHandler<>() {
            @Override
            public void onAdd(ConfigMap object) {
                told.add("add " + object.getMetadata().getName());
            }

            @Override
            public void onUpdate(ConfigMap before, ConfigMap object) {
                told.add("update " + object.getMetadata().getName());
            }

            @Override
            public void onDelete(ConfigMap object, boolean unknown) {
                told.add("delete " + object.getMetadata().getName());
            }
        });
        eventually("it has synced", informer::hasSynced);
        client.resource(map("informed")).create();
        eventually("it is told", () -> told.contains("add informed"));
        client.configMaps().inNamespace(SPACE).withName("informed").edit(
                found -> new ConfigMapBuilder(found).addToData("k", "2").build());
        eventually("the change is told", () -> told.contains("update informed"));
        client.configMaps().inNamespace(SPACE).withName("informed").delete();
        eventually("the end is told", () -> told.contains("delete informed"));
        informer.stop();
    }

    static void kinds(KubernetesClient client) throws InterruptedException {
        say("custom resources");
        String definition = """
                apiVersion: apiextensions.k8s.io/v1
                kind: CustomResourceDefinition
                metadata: {name: widgets.compat.example.com}
                spec:
                  group: compat.example.com
                  scope: Namespaced
                  names: {plural: widgets, singular: widget, kind: Widget}
                  versions:
                  - name: v1
                    served: true
                    storage: true
                    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
                """;
        client.load(new java.io.ByteArrayInputStream(definition.getBytes())).create();
        var kind = new ResourceDefinitionContext.Builder().withGroup("compat.example.com").withVersion("v1")
                .withKind("Widget").withPlural("widgets").withNamespaced(true).build();
        client.apiextensions().v1().customResourceDefinitions().withName("widgets.compat.example.com").waitUntilCondition(
                found -> found != null && found.getStatus() != null && found.getStatus().getConditions() != null
                        && found.getStatus().getConditions().stream().anyMatch(
                                c -> c.getType().equals("Established") && c.getStatus().equals("True")),
                30, java.util.concurrent.TimeUnit.SECONDS);
        var widgets = client.genericKubernetesResources(kind).inNamespace(SPACE);
        var widget = new GenericKubernetesResource();
        widget.setApiVersion("compat.example.com/v1");
        widget.setKind("Widget");
        widget.setMetadata(map("one").getMetadata());
        widget.setAdditionalProperties(Map.of("spec", Map.of("size", 1)));
        widgets.resource(widget).create();
        expect(widgets.list().getItems().size(), 1);
    }

    public static void main(String[] words) throws InterruptedException {
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            say("fabric8 finds " + client.getKubernetesVersion().getGitVersion());
            client.resource(new NamespaceBuilder().withNewMetadata().withName(SPACE).endMetadata().build()).create();
            writes(client);
            watches(client);
            informers(client);
            kinds(client);
        }
    }
}
