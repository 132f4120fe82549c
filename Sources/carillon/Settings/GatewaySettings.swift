import Channels
import FoundationEssentials
import Gateway

extension GatewayConfiguration {
    /// - Throws: a failure that names the setting concerned.
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init()
        trustedPeers = try effective.required(SettingsTable.trustedProxies)
        let loops = try effective.required(SettingsTable.loops)
        self.loops = loops > 0 ? loops : min(ProcessInfo.processInfo.activeProcessorCount, LoopSet.loopsMax)
        let allowed = try effective.required(SettingsTable.allowedOrigins)
        origins = allowed.contains("*") ? .any : .only(Set(allowed))
        requiresProtocolVersion = try effective.required(SettingsTable.strictProtocol)
        timeouts.tlsHandshake = try effective.required(TLSSettings.handshakeTimeout)
        // A token that is still taken must not be one whose connection ends at once: its client would come back with it,
        // again and again.
        let leeway = try effective.required(TokenSettings.leeway)
        timeouts.identity.grace = max(timeouts.identity.grace, leeway + .seconds(5))
        timeouts.activity = try effective.required(TimeoutSettings.activity)
        timeouts.pong = try effective.required(TimeoutSettings.pong)
        timeouts.handshake = try effective.required(TimeoutSettings.handshake)
        timeouts.message = try effective.required(TimeoutSettings.message)
        timeouts.unacked = try effective.required(TimeoutSettings.unacked)
        limits.messageBytesMax = try effective.required(MessageSettings.messageBytesMax)
        limits.messageFragmentsMax = try effective.required(MessageSettings.messageFragmentsMax)
        limits.messagesPerSecond = try effective.required(MessageSettings.messagesPerSecond)
        limits.messagesBurst = try effective.required(MessageSettings.messagesBurst)
        limits.controlFramesPerSecond = try effective.required(MessageSettings.controlFramesPerSecond)
        limits.controlFramesBurst = try effective.required(MessageSettings.controlFramesBurst)
        httpLimits.headBytes = try effective.required(MessageSettings.headBytesMax)
        httpLimits.bodyBytes = try effective.required(MessageSettings.bodyBytesMax)
        limits.requestBytesPerSecondMin = try effective.required(MessageSettings.requestBytesPerSecondMin)
        channelLimits.subscriptionsPerSessionMax = try effective.required(SubscriptionSettings.channelsPerConnectionMax)
        channelLimits.homes.channelsMax = try effective.required(SubscriptionSettings.channelsMax)
        channelLimits.parkedPerSessionMax = try effective.required(SubscriptionSettings.parkedSubscribesMax)
        channelLimits.unpublishedPerUserMax = max(
            channelLimits.unpublishedPerUserMax, try effective.required(SubscriptionSettings.streamsPerUserMax))
        limits.connectionsMax = try effective.required(AdmissionSettings.connectionsMax)
        limits.addressConnectsPerSecond = try effective.required(AdmissionSettings.addressConnectsPerSecond)
        limits.addressConnectsBurst = try effective.required(AdmissionSettings.addressConnectsBurst)
        limits.tlsHandshakesMax = try effective.required(AdmissionSettings.tlsHandshakesMax)
        limits.tlsHandshakesWaitingMax = try effective.required(AdmissionSettings.tlsHandshakesWaitingMax)
        let perAddress = try effective.required(AdmissionSettings.connectionsPerAddressMax)
        limits.connectionsPerAddressMax = perAddress > 0 ? perAddress : nil
        // A proxy on this machine speaks for everybody.
        limits.exemptsLoopback = true
        limits.sendQueueBytesMax = try effective.required(QueueSettings.sendQueueBytesMax)
        limits.sendQueuesBytesMax = try effective.required(QueueSettings.sendQueuesBytesMax)
        limits.unfinishedBytesMax = try effective.required(QueueSettings.unfinishedBytesMax)
        timeouts.stalled = try effective.required(QueueSettings.stalledTimeout)
        // A page comes on top of it, and must not be what closes the connection.
        limits.pullQueueBytesMax = min(
            try effective.required(QueueSettings.pullQueueBytesMax), limits.sendQueueBytesMax / 2)
        channelLimits.streams.windowEvents = try effective.required(ReplaySettings.windowEventsMax)
        channelLimits.streams.windowBytes = try effective.required(ReplaySettings.windowBytesMax)
        channelLimits.streams.windowTotalBytes = try effective.required(ReplaySettings.windowTotalBytesMax)
        channelLimits.streams.linger = try effective.required(ReplaySettings.linger)
        channelLimits.streams.replayEvents = Int64(try effective.required(ReplaySettings.replayEventsMax))
        channelLimits.homes.leaveGrace = try effective.required(ChannelSettings.leaveGrace)
        channelLimits.homes.cacheTime = try effective.required(ChannelSettings.cacheTime)
        channelLimits.homes.cacheBytesMax = try effective.required(ChannelSettings.cacheBytesMax)
        channelLimits.homes.webhookPause = try effective.required(WebhookSettings.leaveGrace)
        compression = try effective.required(MessageCompression.isOn) ? CompressionSettings() : nil
        compression?.threshold = try effective.required(MessageCompression.threshold)
        compression?.level = try effective.required(MessageCompression.level)
    }

    init(_ settings: Settings) {
        self = settings.gateway
        listeners = zip(settings.listenPlaces, settings.listen).map { place, listener in
            ListenerConfiguration(place, usesTLS: listener.usesTLS)
        }
        apps = settings.apps(indices: Array(settings.apps.indices))
    }
}
