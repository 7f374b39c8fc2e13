package org.apache.kafka.common.test;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.common.Uuid;

/** One `kbroker serve` in a folder of its own, with the settings of a test. */
public class BrokerProgram {
    private static final String LOGIN =
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"plain-admin\" "
        + "password=\"plain-admin-secret\"";
    private static final int START_MS = 120_000;
    private static final byte[] API_VERSIONS =
        {0, 0, 0, 14, 0, 18, 0, 0, 0, 0, 0, 1, 0, 4, 'p', 'e', 'e', 'r'};

    public final Map<String, String> settings;
    private final String listener;
    private final String protocol;
    private final int disks;
    private Path folder;
    private Process process;
    private int port;

    public BrokerProgram(Map<String, String> settings, String listener, String protocol, int disks) {
        this.settings = settings;
        this.listener = listener;
        this.protocol = protocol;
        this.disks = disks;
    }

    public int port() {
        return port;
    }

    public boolean runs() {
        return process != null;
    }

    public synchronized void start() throws IOException, InterruptedException {
        if (process != null)
            return;
        if (folder == null) {
            folder = Files.createTempDirectory("cluster-test");
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = free.getLocalPort();
            }
        }
        StringBuilder lines = new StringBuilder();
        allSettings().forEach((key, value) -> lines.append(key).append('=').append(value).append('\n'));
        Path file = Files.writeString(folder.resolve("server.properties"), lines.toString());
        File log = folder.resolve("log").toFile();
        process = new ProcessBuilder(System.getProperty("python"), "-m", "kbroker", "serve", file.toString())
            .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        long end = System.currentTimeMillis() + START_MS;
        while (!answers()) {
            if (!process.isAlive() || System.currentTimeMillis() > end)
                throw new IllegalStateException("kbroker did not start: " + Files.readString(log.toPath()));
            Thread.sleep(30);
        }
    }

    private Map<String, String> allSettings() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("node.id", "0");
        for (String topic : List.of("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"))
            all.put(topic + ".num.partitions", "5");
        if (protocol.equals("SASL_PLAINTEXT")) {
            all.put("sasl.enabled.mechanisms", "PLAIN");
            all.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            all.put("super.users", "User:plain-admin");
            all.put("listener.name." + listener.toLowerCase(Locale.ROOT) + ".plain.sasl.jaas.config",
                LOGIN + " user_plain-admin=\"plain-admin-secret\" user_plain-user1=\"plain-user1-secret\";");
        }
        all.putAll(settings);
        all.put("num.network.threads", "1");
        all.put("num.io.threads", "1");
        all.put("listeners", listener + "://127.0.0.1:" + port);
        all.put("advertised.listeners", listener + "://localhost:" + port);
        all.put("listener.security.protocol.map", listener + ":" + protocol);
        all.put("inter.broker.listener.name", listener);
        StringBuilder dirs = new StringBuilder(folder.resolve("data").toString());
        for (int disk = 1; disk < disks; disk++)
            dirs.append(',').append(folder.resolve("data" + disk));
        all.put("log.dirs", dirs.toString());
        all.put("kbroker.http.listen", "127.0.0.1:0");
        return all;
    }

    private boolean answers() {
        try (Socket link = new Socket(InetAddress.getLoopbackAddress(), port)) {
            link.setSoTimeout(START_MS);
            link.getOutputStream().write(API_VERSIONS);
            return link.getInputStream().read() >= 0;
        } catch (IOException notYet) {
            return false;
        }
    }

    public synchronized void stop() {
        if (process == null)
            return;
        List<ProcessHandle> children = process.descendants().toList();
        process.destroy();
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                children.forEach(ProcessHandle::destroyForcibly);
                process.destroyForcibly();
            }
        } catch (InterruptedException stopped) {
            throw new RuntimeException(stopped);
        }
        process = null;
    }

    public void delete() throws IOException {
        if (folder == null)
            return;
        try (var files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }

    public Admin admin() {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", "localhost:" + port));
        if (protocol.equals("SASL_PLAINTEXT")) {
            config.put("security.protocol", protocol);
            config.put("sasl.mechanism", "PLAIN");
            config.put("sasl.jaas.config", LOGIN + ";");
        }
        return Admin.create(config);
    }

    /** Partitions of a topic; null, if there is no such topic. */
    public Integer partitions(String topic) {
        try (Admin admin = admin()) {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        } catch (Exception missing) {
            return null;
        }
    }

    public Map<String, Uuid> topicIds() {
        Map<String, Uuid> ids = new HashMap<>();
        try (Admin admin = admin()) {
            for (var topic : admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get())
                ids.put(topic.name(), topic.topicId());
        } catch (Exception failed) {
            throw new RuntimeException(failed);
        }
        return ids;
    }
}
