//! The messages of ODrives as cantools encodes them after the DBC files of both lines of firmware, and as clients shorten them.

use crate::common::{bytes, hex_number, number, small, text, vectors};
use khz_wire::Frame;
use khz_wire::odrive::{
    Address, Heartbeat, InputPos, Line, Sdo, Version, command, filled, floats, frame, identifier, is_asking,
    parts, two_floats, two_words, words,
};
use serde_json::Value as Json;

fn line(of: &Json) -> Line {
    if of["firmware"] == "0.5" { Line::V05 } else { Line::V06 }
}

/// The payload that these fields make, from their names in the DBC file.
fn made(vector: &Json) -> Vec<u8> {
    let fields = &vector["fields"];
    let float = |key: &str| number(&fields[key]) as f32;
    let word = |key: &str| fields[key].as_u64().unwrap() as u32;
    let of = text(&vector["of"]);
    let two = |a: &str, b: &str| floats([float(a), float(b)]).to_vec();
    let one = |key: &str| floats([float(key), 0.0]).to_vec();
    match of {
        "Get_Version" => Version {
            protocol: small(&fields["Protocol_Version"]),
            hardware: ["Major", "Minor", "Variant"].map(|part| {
                small(
                    &fields[if part == "Variant" {
                        "Hw_Version_Variant".into()
                    } else {
                        format!("Hw_Version_{part}")
                    }],
                )
            }),
            firmware: ["Major", "Minor", "Revision"].map(|part| small(&fields[format!("Fw_Version_{part}")])),
            unreleased: small(&fields["Fw_Version_Unreleased"]),
        }
        .to_bytes()
        .to_vec(),
        "Heartbeat" => {
            let flag = |key: &str| small(&fields[key]);
            let beat = Heartbeat {
                errors: word("Axis_Error"),
                state: small(&fields["Axis_State"]),
                ..Heartbeat::default()
            };
            match line(vector) {
                Line::V06 => Heartbeat {
                    byte_5: flag("Procedure_Result"),
                    byte_6: flag("Trajectory_Done_Flag"),
                    ..beat
                },
                Line::V05 => Heartbeat {
                    byte_5: flag("Motor_Error_Flag"),
                    byte_6: flag("Encoder_Error_Flag"),
                    byte_7: flag("Controller_Error_Flag") | flag("Trajectory_Done_Flag") << 7,
                    ..beat
                },
            }
            .to_bytes()
            .to_vec()
        }
        "Estop" | "Enter_DFU_Mode" => Vec::new(),
        "Get_Error" => words([word("Active_Errors"), word("Disarm_Reason")]).to_vec(),
        "Get_Motor_Error" | "Get_Encoder_Error" | "Get_Controller_Error" => {
            let (_, value) = fields.as_object().unwrap().iter().next().unwrap();
            words([value.as_u64().unwrap() as u32, 0]).to_vec()
        }
        "RxSdo" | "TxSdo" => Sdo {
            write: fields["Opcode"] == 1,
            endpoint: word("Endpoint_ID") as u16,
            value: word("Value").to_le_bytes(),
        }
        .to_bytes()
        .to_vec(),
        "Address" => {
            let serial = fields["Serial_Number"].as_u64().unwrap();
            Address { node: small(&fields["Node_ID"]), serial }.to_bytes().to_vec()
        }
        "Set_Axis_Node_ID" => words([word("Axis_Node_ID"), 0]).to_vec(),
        "Set_Axis_State" => words([word("Axis_Requested_State"), 0]).to_vec(),
        "Get_Encoder_Estimates" => two("Pos_Estimate", "Vel_Estimate"),
        "Get_Sensorless_Estimates" => two("Sensorless_Pos_Estimate", "Sensorless_Vel_Estimate"),
        "Get_Encoder_Count" => words([word("Shadow_Count"), word("Count_in_CPR")]).to_vec(),
        "Set_Linear_Count" => words([fields["Position"].as_i64().unwrap() as u32, 0]).to_vec(),
        "Set_Controller_Mode" => words([word("Control_Mode"), word("Input_Mode")]).to_vec(),
        "Set_Input_Pos" => {
            let of = |key: &str| number(&fields[key]);
            InputPos::new(of("Input_Pos"), of("Vel_FF"), of("Torque_FF")).to_bytes().to_vec()
        }
        "Set_Input_Vel" => two("Input_Vel", "Input_Torque_FF"),
        "Set_Input_Torque" => one("Input_Torque"),
        "Set_Limits" => two("Velocity_Limit", "Current_Limit"),
        "Set_Traj_Vel_Limit" => one("Traj_Vel_Limit"),
        "Set_Traj_Accel_Limits" => two("Traj_Accel_Limit", "Traj_Decel_Limit"),
        "Set_Traj_Inertia" => one("Traj_Inertia"),
        "Get_Iq" => two("Iq_Setpoint", "Iq_Measured"),
        "Get_Temperature" => two("FET_Temperature", "Motor_Temperature"),
        "Reboot" => vec![small(&fields["Action"])],
        "Get_Bus_Voltage_Current" => two("Bus_Voltage", "Bus_Current"),
        "Clear_Errors" => vec![small(&fields["Identify"])],
        "Set_Absolute_Position" => one("Position"),
        "Set_Pos_Gain" => one("Pos_Gain"),
        "Set_Vel_Gains" => two("Vel_Gain", "Vel_Integrator_Gain"),
        "Get_Torques" => two("Torque_Target", "Torque_Estimate"),
        "Get_Powers" => two("Electrical_Power", "Mechanical_Power"),
        other => panic!("{other}"),
    }
}

#[test]
fn every_message_has_the_bytes_of_its_dbc_file() {
    let mut count = 0;
    for vector in vectors("odrive.json").into_iter().filter(|vector| vector["fields"].is_object()) {
        let payload = bytes(&vector["payload"]);
        assert_eq!(made(&vector), payload, "{vector}");
        let (node, command) = (small(&vector["node"]), hex_number(&vector["command"]) as u8);
        let made = frame(node, command, &payload);
        assert_eq!((made.id, made.payload()), (hex_number(&vector["id"]), &payload[..]));
        assert_eq!(parts(&made), Some((node, command)));
        count += 1;
    }
    assert_eq!(count, 98);
}

#[test]
fn what_a_message_says_is_read_from_its_bytes() {
    for vector in vectors("odrive.json") {
        let (payload, line) = (bytes(&vector["payload"]), line(&vector));
        match text(&vector["of"]) {
            "Heartbeat" => {
                let beat = Heartbeat::parse(&payload).unwrap();
                assert_eq!(beat.to_bytes()[..], payload);
                let is_watchdog = beat.errors == line.watchdog();
                assert_eq!(
                    is_watchdog,
                    beat.errors != 0 && line.error_name(beat.errors) == "watchdog expired"
                );
                assert_eq!(beat.has_error(line), beat.errors != 0, "{vector}");
            }
            "Get_Version" if !payload.is_empty() => {
                assert_eq!(Version::parse(&payload).unwrap().firmware, [0, 6, 11]);
            }
            "Address" => assert_eq!(Address::parse(&payload).unwrap().to_bytes()[..], payload),
            "Set_Input_Pos" => {
                let whole = payload.clone().try_into().unwrap();
                assert_eq!(InputPos::from_bytes(whole).to_bytes()[..], payload);
            }
            _ if payload.len() == 8 => {
                assert_eq!(words(two_words(&payload).unwrap())[..], payload);
                assert_eq!(two_floats(&payload).map(|both| both.map(f32::to_bits)), two_words(&payload));
            }
            _ => {}
        }
    }
}

#[test]
fn shorter_messages_of_clients_are_whole() {
    let mut count = 0;
    for vector in vectors("odrive.json").into_iter().filter(|vector| vector["by"].is_string()) {
        let (payload, command) = (bytes(&vector["payload"]), hex_number(&vector["command"]) as u8);
        assert_eq!(is_asking(&frame(0, command, &payload)), payload.is_empty());
        match command {
            command::RX_SDO => {
                let sdo = Sdo::parse(&payload).unwrap();
                assert_eq!((sdo.write, sdo.to_bytes()[..payload.len()].to_vec()), (payload[0] == 1, payload));
            }
            _ => assert_eq!(filled(&payload, payload.len()).unwrap()[..payload.len()], payload),
        }
        count += 1;
    }
    assert_eq!(count, 7);
    assert_eq!((Sdo::parse(&[1, 0, 0, 0]), Sdo::parse(&[0, 1, 0]), filled(&[0; 3], 4)), (None, None, None));
}

#[test]
fn only_classic_frames_with_eleven_bits_are_of_a_drive() {
    let ours = frame(62, command::POWERS, &[]);
    assert_eq!((ours.id, parts(&ours)), (identifier(62, 0x1d), Some((62, 0x1d))));
    let mut others = [ours; 2];
    (others[0].extended, others[1].fd) = (true, true);
    assert_eq!(others.map(|frame| parts(&frame)), [None, None]);
    assert!(is_asking(&Frame::remote(9, 8).unwrap()));
}

#[test]
fn what_is_beyond_the_last_step_is_the_last() {
    let far = InputPos::new(0.0, 1e9, -1e9);
    assert_eq!((far.velocity, far.torque), (i16::MAX, i16::MIN));
    assert_eq!(InputPos::new(0.0, f64::NAN, 0.0004), InputPos::default());
}
