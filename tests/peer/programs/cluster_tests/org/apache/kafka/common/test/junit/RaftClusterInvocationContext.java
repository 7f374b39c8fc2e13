package org.apache.kafka.common.test.junit;

import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.BrokerMocks;
import org.apache.kafka.common.test.BrokerProgram;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/** Takes the place of Kafka's class of this name on the class path: a test's cluster is one kbroker. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final int WAIT_MS = 60_000;
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " " + index;
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Instance instance = new Instance(config);
        return List.of(
            (BeforeEachCallback) context -> {
                if (combined && config.clusterTypes().contains(Type.KRAFT))
                    throw new TestAbortedException("one program has no roles to combine");
                if (config.isAutoStart())
                    instance.start();
            },
            (AfterEachCallback) context -> instance.stop(),
            new ClusterInstanceParameterResolver(instance));
    }

    private static class Instance implements ClusterInstance {
        private final ClusterConfig config;
        private final BrokerProgram program;
        private final BrokerMocks mocks;
        private final KafkaBroker broker;
        private boolean started;
        private boolean stopped;

        Instance(ClusterConfig config) {
            this.config = config;
            Map<String, String> settings = new LinkedHashMap<>(config.serverProperties());
            settings.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
            program = new BrokerProgram(settings, config.brokerListenerName().value(),
                config.brokerSecurityProtocol().name, config.numDisksPerBroker());
            mocks = new BrokerMocks(program);
            broker = mocks.broker();
        }

        @Override
        public void start() {
            if (config.brokerSecurityProtocol().name.endsWith("SSL"))
                throw new TestAbortedException("no certificates");
            try {
                program.start();
                turnFeaturesOff();
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
            started = true;
        }

        private void turnFeaturesOff() throws Exception {
            Map<String, FeatureUpdate> off = new HashMap<>();
            config.features().forEach((feature, level) -> {
                if (level == 0)
                    off.put(feature.featureName(), new FeatureUpdate((short) 0, FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE));
            });
            if (!off.isEmpty())
                try (Admin admin = program.admin()) {
                    admin.updateFeatures(off, new UpdateFeaturesOptions()).all().get();
                }
        }

        @Override
        public void stop() {
            if (stopped)
                return;
            stopped = true;
            program.stop();
            try {
                program.delete();
            } catch (java.io.IOException failed) {
                throw new RuntimeException(failed);
            }
        }

        @Override
        public void shutdownBroker(int id) {
            program.stop();
        }

        @Override
        public void startBroker(int id) {
            try {
                program.start();
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            waitFor(topic, partitions);
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            waitFor(topic, null);
        }

        private void waitFor(String topic, Integer partitions) throws InterruptedException {
            long end = System.currentTimeMillis() + WAIT_MS;
            while (!java.util.Objects.equals(program.partitions(topic), partitions)) {
                if (System.currentTimeMillis() > end)
                    throw new AssertionError(topic + " has not " + partitions + " partitions");
                Thread.sleep(20);
            }
        }

        @Override
        public String clusterId() {
            try (Admin admin = program.admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            String named = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "consumer");
            return named.contains("consumer") ? Set.of(GroupProtocol.values()) : Set.of(GroupProtocol.CLASSIC);
        }

        @Override
        public Type type() {
            return Type.KRAFT;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return Map.of(0, broker);
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return mocks.controllers();
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Set<Integer> controllerIds() {
            return Set.of(0);
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return new ListenerName("CONTROLLER");
        }

        @Override
        public String bootstrapServers() {
            return "localhost:" + program.port();
        }

        @Override
        public String bootstrapControllers() {
            throw new TestAbortedException("no controllers");
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            throw new TestAbortedException("no controllers");
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return List.of(program.port());
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public boolean started() {
            return started;
        }

        @Override
        public boolean stopped() {
            return stopped;
        }

        @Override
        public void waitForReadyBrokers() {
        }

        @Override
        public void ensureConsistentMetadata() {
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        }
    }
}
